"""Minimal folders of datasets for tests of planning, and metadatasets over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from loader.errors import ConfigError
from loader.format.dataset_ref import DatasetRef
from loader.metadataset.documents.leaf_plan import LeafPlan
from loader.metadataset.plans.plan_leaves import plan_leaves


class MetadatasetFiles:
    """Files of one folder; planning only checks whether a dataset has been prepared."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add_datasets(self, *names: str) -> None:
        for name in names:
            meta = self.folder / name / ".nv-meta"
            meta.mkdir(parents=True)
            (meta / ".info.json").write_text('{"energon_version": "7.4.1", "shard_counts": {}}')

    def write(self, name: str, splits: object, *, version: str | None = "MetadatasetV2", **more: object) -> Path:
        document = {"__module__": "megatron.energon", "__class__": version, "splits": splits, **more}
        if version is None:
            del document["__class__"], document["__module__"]
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    def plan(self, name: str = "mix.yaml", *, training: bool = True, **arguments: Any) -> tuple[LeafPlan, ...]:
        documents = {key: arguments.pop(key) for key in ("split_config", "dataset_config") if key in arguments}
        ref = DatasetRef(str(self.folder / name), **documents)
        return plan_leaves(ref, training=training, **{"split_part": "train", **arguments})

    def plan_train(self, train: object, **arguments: Any) -> tuple[LeafPlan, ...]:
        """Plan a metadataset with this training split."""
        self.write("mix.yaml", {"train": train})
        return self.plan(**arguments)

    def faults(self, name: str = "mix.yaml", **arguments: Any) -> list[str]:
        """Plan an invalid metadataset, and return its faults."""
        with pytest.raises(ConfigError) as caught:
            self.plan(name, **arguments)
        assert caught.value.file == str(self.folder / name)
        return [str(fault) for fault in caught.value.faults]

    def faults_of_train(self, train: object, **arguments: Any) -> list[str]:
        self.write("mix.yaml", {"train": train})
        return self.faults(**arguments)

    def name(self, leaf: LeafPlan) -> str:
        """Return a leaf's path as written in the document."""
        return str(Path(leaf.path).relative_to(self.folder))
