"""Small prepared datasets of keys, and metadatasets that join them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from loader.dataset.opening import folder_at
from loader.metadataset.documents.leaf_plan import JoinPlan
from loader.metadataset.plans.plan_leaves import plan_leaves
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from tests.e2e.dataset_tree import write_tar

TEXT = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"
JOINER = {"__module__": "my_joiners", "__class__": "Pair"}

Shards = Mapping[str, Sequence[str]]  # name → keys


class JoinedData:
    """A folder of datasets and metadatasets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add_dataset(
        self,
        name: str,
        shards: Shards,
        *,
        parts: Mapping[str, Sequence[str]] | None = None,
        exclude: Sequence[str] = (),
    ) -> Path:
        """Write and prepare a dataset; the text of a sample is ``name/key``.

        Args:
            name: Its folder.
            shards: The keys of each shard, without ``.tar``.
            parts: The shards of each split part; by default ``train`` has them all.
            exclude: What the split leaves out.
        """
        folder = self.folder / name
        for shard, keys in shards.items():
            members = [(f"{key}.txt", f"{name}/{key}".encode("utf-8", "surrogateescape")) for key in keys]
            write_tar(folder / f"{shard}.tar", members)
        self.prepare(name)
        self.set_split(name, parts or {"train": list(shards)}, exclude=exclude)
        return folder

    def prepare(self, name: str) -> None:
        """Prepare a dataset, for the first time or again."""
        path = str(self.folder / name)
        options: dict[str, Any] = {"compat": False, "workers": 1, "force": True}
        if (self.folder / name / ".nv-meta").exists():
            run_prepare(PreparePlan(path=path, **options))
        else:
            split = SplitRequest(ratio={"train": 1.0})
            run_prepare(PreparePlan(path=path, split=split, files={"dataset.yaml": TEXT}, **options))

    def set_split(
        self, name: str, parts: Mapping[str, Sequence[str]], *, exclude: Sequence[str] = (), file: str = "split.yaml"
    ) -> None:
        split = {part: [f"{shard}.tar" for shard in shards] for part, shards in parts.items()}
        text = yaml.safe_dump({"split_parts": split, "exclude": list(exclude)}, sort_keys=False)
        (self.folder / name / ".nv-meta" / file).write_text(text)

    def write(self, name: str, splits: Mapping[str, Any]) -> Path:
        """Write a metadataset."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": dict(splits)}
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    def write_join(self, *members: Any, name: str = "meta.yaml", joiner: Any = None) -> Path:
        """Write a metadataset whose training split is a join; members are paths, or mappings."""
        return self.write(name, {"train": join_of(*members, joiner=joiner)})

    def plan(self, *members: Any, **options: Any) -> JoinPlan:
        """Write a join, and plan it."""
        return self.plan_of(self.write_join(*members, **options))

    def plan_of(self, path: Path, split_part: str = "train", **options: Any) -> JoinPlan:
        (leaf,) = plan_leaves(path, split_part=split_part, training=True, **options)
        assert leaf.join is not None
        return leaf.join

    def keys(self, plan: JoinPlan, rows: Any) -> list[list[str | None]]:
        """Return the rows of a join as ``shard/key`` of their samples."""
        indexes = [folder_at(member.path).index for member in plan.members]
        return [
            [index.full_key(sample) if sample >= 0 else None for index, sample in zip(indexes, row, strict=True)]
            for row in rows.tolist()
        ]

    def files(self, name: str = "meta.yaml") -> list[str]:
        """List the files of a metadataset's joins, without the lock."""
        folder = self.folder / f"{name}.joins"
        return sorted(path.name for path in folder.iterdir() if path.name != ".lock") if folder.exists() else []


def join_of(*members: Any, joiner: Any = None) -> dict[str, Any]:
    """Return a join in the form of documents."""
    listed = [{"path": member} if isinstance(member, str) else member for member in members]
    return {"join": listed, "joiner": joiner or JOINER}


def skipping(path: str) -> dict[str, str]:
    return {"path": path, "nonmatch": "skip"}


def filling(path: str) -> dict[str, str]:
    return {"path": path, "nonmatch": "none"}
