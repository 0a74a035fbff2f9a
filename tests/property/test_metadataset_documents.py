from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from math import isclose
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from loader.errors import ConfigError
from loader.metadataset.documents.leaf_plan import LeafPlan
from loader.metadataset.plans.plan_leaves import plan_leaves, plan_tree

KEYS = ["path", "blend", "blend_epochized", "join", "weight", "subset", "range", "aux", "subflavors", "datasets"]
WORDS = ["a", "mix.yaml", "inner.yaml", "s3://b/c", "0%", "50%", "end", "train", "MetadatasetV2", "Metadataset", "skip"]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner),
    max_leaves=5,
)

REFERENCE = {
    "path": "a",
    "split_part": "x",
    "split_config": "s.yaml",
    "dataset_config": "d.yaml",
    "subflavors": {"k": 1},
    "shuffle_over_epochs_multiplier": 2,
    "subset": {"range": ["10%", "50%"]},
    "aux": {"x": "b", "y": {"fs_path": "c"}},
}
JOIN = {
    "join": {"one": {"path": "a"}, "two": {"path": "b", "nonmatch": "skip"}},
    "joiner": {"__module__": "m", "__class__": "J"},
    "subset": {"range": [0, "end"]},
}
WHOLE = {
    "mix.yaml": {
        "__module__": "megatron.energon",
        "__class__": "MetadatasetV2",
        "splits": {
            "train": {
                "blend": [{**REFERENCE, "weight": 2}, {"path": "inner.yaml"}, {"path": "v1.yaml"}, JOIN],
                "subset": {"range": ["0%", "50%"]},
            }
        },
    },
    "inner.yaml": {
        "__module__": "megatron.energon",
        "__class__": "MetadatasetV2",
        "splits": {
            "train": {"join": [{"path": "a"}, {"path": "c"}], "joiner": {"__module__": "m", "__function__": "f"}}
        },
    },
    "v1.yaml": {"__class__": "Metadataset", "splits": {"train": {"datasets": [{"path": "c", "weight": 3}]}}},
}


def places(value: Any, place: tuple[int | str, ...] = ()) -> Iterator[tuple[int | str, ...]]:
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*place, key))


def changed(value: Any, place: Sequence[int | str], new: Any) -> Any:
    """Return a copy with another value at a place."""
    if not place:
        return new
    key, *rest = place
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = changed(value[key], rest, new)
    return copy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("metadatasets")
    for name in ("a", "b", "c"):
        (folder / name / ".nv-meta").mkdir(parents=True)
        (folder / name / ".nv-meta" / ".info.json").touch()
    return folder


def write(path: Path, splits: dict[str, Any]) -> None:
    path.write_text(json.dumps({"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": splits}))


@given(st.data())
@settings(max_examples=60)
def test_planning_any_value_at_any_place_returns_leaves_or_faults(folder: Path, data: st.DataObject) -> None:
    """Any value at any place of any file yields leaves or a ConfigError with faults, and no other exception."""
    documents: Any = WHOLE
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.sampled_from(list(places(documents))[1:]))
        documents = changed(documents, place, data.draw(json_values))
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        faults, leaves = faults_and_leaves(folder / "mix.yaml")
    assert faults or leaves
    assert sum(map(len, faults)) < 20_000


def faults_and_leaves(path: Path) -> tuple[list[str], tuple[LeafPlan, ...]]:
    try:
        return [], plan_leaves(path, split_part="train", training=True)
    except ConfigError as error:
        return list(map(str, error.faults)), ()


def test_the_unchanged_files_have_no_faults(folder: Path) -> None:
    for name, document in WHOLE.items():
        (folder / name).write_text(json.dumps(document))
    assert len(faults_and_leaves(folder / "mix.yaml")[1]) == 4


Tree = str | list[tuple[float, "Tree"]]  # a dataset, or a blend of amounts and trees

trees = st.recursive(
    st.sampled_from(["a", "b", "c"]),
    lambda inner: st.lists(st.tuples(st.floats(0.001, 1000) | st.integers(1, 9), inner), min_size=1, max_size=4),
    max_leaves=10,
)


def spread(folder: Path, tree: Tree, kind: str, amount: str) -> str:
    """Write a tree of blends with one file for each blend, and return the root's name."""
    names = iter(range(10_000))

    def path_of(node: Tree) -> str:
        if isinstance(node, str):
            return node
        name = f"{next(names)}.yaml"
        entries = [{amount: value, "path": path_of(child)} for value, child in node]
        write(folder / name, {"train": {kind: entries}})
        return name

    return path_of(tree)


def amounts(tree: Tree, outer: float, share: bool) -> Iterator[float]:
    """Yield the amount of each leaf, computed by the definition."""
    if isinstance(tree, str):
        yield outer
        return
    total = sum(value for value, _ in tree) if share else 1
    for value, child in tree:
        yield from amounts(child, outer * value / total, share)


@given(tree=trees.filter(lambda tree: not isinstance(tree, str)))
def test_weights_of_any_tree_are_shares_of_shares_and_add_up_to_one(folder: Path, tree: Tree) -> None:
    root = plan_tree(folder / spread(folder, tree, "blend", "weight"), split_part="train")
    weights = [leaf.weight for leaf in root.leaves()]
    assert weights == pytest.approx(list(amounts(tree, 1.0, share=True)))
    assert isclose(sum(weight or 0 for weight in weights), 1)


@given(tree=trees.filter(lambda tree: not isinstance(tree, str)))
def test_repetitions_of_any_tree_multiply(folder: Path, tree: Tree) -> None:
    root = plan_tree(folder / spread(folder, tree, "blend_epochized", "repetitions"), split_part="train")
    repetitions = [leaf.repetitions for leaf in root.leaves()]
    assert repetitions == pytest.approx(list(amounts(tree, 1.0, share=False)))
