"""Compare the splits, leaves and weights of two metadatasets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...training.states import differences
from ..metadataset import metadataset_facts
from .report import DifferenceList

_COMPARED = (
    "share",
    "schedule",
    "repetitions",
    "samples",
    "split_config",
    "dataset_config",
    "meta_folder",
    "filter",
    "subset",
    "subflavors",
    "aux",
    "aux_meta_folders",
    "join",
    "fault",
)
_DIGITS = 6  # of shares


def compare_metadatasets(before: str, after: str, found: DifferenceList) -> None:
    """Compare what two metadatasets mean: the leaves of each split, with their shares of the mix and their settings.

    How the documents are nested does not count.

    Raises:
        ConfigError: A document contains faults.
        StorageError: A document cannot be read.
    """
    splits, splits_now = (
        {split["name"]: split for split in metadataset_facts(path, split_config=None, dataset_config=None)["splits"]}
        for path in (before, after)
    )
    found.add_names("", "splits", [*splits], [*splits_now])
    for name, split in splits.items():
        split_now = splits_now.get(name)
        if split_now is None:
            continue
        found.add(name, "mixed_by", split["mixed_by"], split_now["mixed_by"])
        _compare_leaves(name, split, split_now, found)


def _compare_leaves(name: str, split: dict[str, Any], split_now: dict[str, Any], found: DifferenceList) -> None:
    leaves, leaves_now = _leaves_by_name(split["tree"]), _leaves_by_name(split_now["tree"])
    for leaf in dict.fromkeys((*leaves, *leaves_now)):
        one, two = leaves.get(leaf), leaves_now.get(leaf)
        if one is None or two is None:
            values = [None if each is None else _rounded(each["share"]) for each in (one, two)]
            if values == [None, None]:  # of a split that has no shares
                found.add_names(name, "leaves", [leaf] if one else [], [leaf] if two else [])
            else:
                found.add(f"{name}: {leaf}", "share", *values)
            continue
        for key in _COMPARED:
            if key == "schedule":
                _compare_schedules(f"{name}: {leaf}", one[key], two[key], found)
            elif key == "share":
                found.add(f"{name}: {leaf}", "share", _rounded(one[key]), _rounded(two[key]))
            else:
                found.extend(differences({key: one[key]}, {key: two[key]}, f"{name}: {leaf}"))
    common, common_now = [one for one in leaves if one in leaves_now], [one for one in leaves_now if one in leaves]
    pairs = zip(common, common_now, strict=True)
    for number, (one_name, other_name) in enumerate(pairs):
        if one_name != other_name:
            found.add(f"{name}: leaves", f"number {number}", one_name, other_name)
            break


def _compare_schedules(place: str, one: Any, two: Any, found: DifferenceList) -> None:
    if one == two:
        return
    before, after = (None if each is None else each["text"] for each in (one, two))
    if before == after:  # the texts of long schedules are cut
        found.extend(differences(one, two, f"{place}: share schedule"))
    else:
        found.add(place, "share schedule", before, after)


def _leaves_by_name(tree: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the leaves of a split by path and split part; repeated ones are numbered."""
    found: dict[str, dict[str, Any]] = {}
    counts: dict[str, int] = {}
    for leaf in _leaves(tree):
        name = f"{leaf['path'] or leaf['place']} ({leaf['split_part']})" if leaf["split_part"] else str(leaf["path"])
        counts[name] = counts.get(name, 0) + 1
        found[name if counts[name] == 1 else f"{name} #{counts[name]}"] = leaf
    return found


def _leaves(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if not node["children"]:
        yield node
    for child in node["children"]:
        yield from _leaves(child)


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, _DIGITS)
