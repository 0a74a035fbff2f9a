"""Both tools resolve metadatasets to the same leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from loader.format.documents.subset import resolve_subset
from loader.metadataset.plans.plan_leaves import plan_leaves, traverse_metadataset

from .conftest import WHOLE, Peer, Program
from .shapes import END, Shape, pair, write

PLANNER = Path(__file__).with_name("peer_plan.py")

V2: dict[str, Any] = {
    "inner": {
        "blend": [
            {"path": "a", "weight": 3, "subset": {"range": ["12.5%", "70%"]}, "subflavors": {"k": "inner", "i": 1}},
            {"path": "b", "shuffle_over_epochs_multiplier": -1, "subset": {"range": [1, "end"]}},
        ],
        "subset": {"range": ["10%", "90%"]},
    },
    "nested": {
        "blend": [
            {"path": "inner.yaml", "weight": 2, "shuffle_over_epochs_multiplier": 3, "subflavors": {"k": "outer"}},
            {"path": "../set/a", "weight": 6, "shuffle_over_epochs_multiplier": None},
            {"path": "v1.yaml", "subset": {"range": ["33.3%", "66.6%"]}},
        ]
    },
    "repeated": {"blend_epochized": [{"path": "a", "repetitions": 2.5}, {"path": "repeated_inner.yaml"}]},
    "repeated_inner": {"blend_epochized": [{"path": "b", "repetitions": 0.5}, {"path": "a", "repetitions": 4}]},
    "alone": {"path": "a", "subset": {"range": [2, 7]}, "shuffle_over_epochs_multiplier": 4},
}
V1: dict[str, Any] = {"v1": {"datasets": [{"path": "b", "weight": 0.5, "subflavor": "x"}, {"path": "a"}]}}
ROOTS = ("nested", "repeated", "alone", "v1")


def forty_samples() -> Shape:
    return {f"s{shard}.tar": b"".join(pair(f"{shard}{n:02d}", n) for n in range(20)) + END for shard in range(2)}


@pytest.fixture(scope="module")
def folder(ours: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("metadatasets") / "set"
    crude = (*WHOLE, "--sample-type", "CrudeWebdataset", "--compat")
    for name in ("a", "b"):
        ours.prepare(write(folder / name, forty_samples()), *crude)
    for version, documents in (("MetadatasetV2", V2), ("Metadataset", V1)):
        for name, train in documents.items():
            document = {"__module__": "megatron.energon", "__class__": version, "splits": {"train": train}}
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(document))
    return folder


@pytest.mark.filterwarnings("ignore:samples of .* are reached twice")
def test_the_peer_plans_the_same_leaves(folder: Path, peer: Peer) -> None:
    paths = [folder / f"{name}.yaml" for name in ROOTS]
    planner = Program((peer.python, str(PLANNER)))
    of_peer = json.loads(planner.run("train", "training", *paths).splitlines()[-1])
    for path, datasets in zip(paths, of_peer, strict=True):
        leaves = plan_leaves(path, split_part="train", training=True)
        for leaf, theirs in zip(leaves, datasets, strict=True):
            start, stop = resolve_subset(leaf.request.subset, theirs["samples"])
            ours = {
                "path": leaf.path,
                "weight": pytest.approx(leaf.weight),
                "repetitions": leaf.repetitions,
                "subflavors": leaf.request.subflavors,
                "epochs_together": leaf.request.epochs_together,
                "range": [start, stop],
                "samples": theirs["samples"],
            }
            assert theirs == ours, leaf.place


def test_the_peer_traverses_to_the_same_datasets(folder: Path, peer: Peer) -> None:
    code = (
        "import sys, megatron.energon as m; "
        "print(*(f'{t.path}|{t.split_part}|{t.subflavors}' for p in sys.argv[1:]"
        " for t in m.traverse_metadataset(p, split_part='train')), sep=chr(10))"
    )
    paths = [folder / f"{name}.yaml" for name in ROOTS]
    theirs = Program((peer.python, "-c", code)).run(*paths).splitlines()
    ours = [found for path in paths for found in traverse_metadataset(path, split_part="train")]
    assert theirs == [f"{found.path}|{found.split_part}|{found.subflavors}" for found in ours]
