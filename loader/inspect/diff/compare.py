"""Compare what two paths name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from ...dataset.opening import folder_at
from ...dataset.unprepared.tar_index import is_prepared
from ...errors import ConfigError, StorageError
from ...format.dataset_ref import DOCUMENT_CHOICES, DatasetRef
from ...format.documents.providers import data_path, is_metadataset, is_record_file
from ...storage import EPath
from ...training.states import differences, list_state_files
from .datasets import DifferenceList, DiffReport

_COMPARED = (
    "share",
    "schedule",
    "repetitions",
    "samples",
    *DOCUMENT_CHOICES,
    "filter",
    "subset",
    "subflavors",
    "aux",
    "aux_meta_folders",
    "join",
    "fault",
)
_DIGITS = 6  # of shares


_CHECKPOINT_SUFFIXES = (".json", ".pt", ".pth", ".ckpt", ".pkl")
_OTHER_INDEX = "the indexes have different uuids: a state that was saved with A does not restore with B"
_UNCOMPARED = ("path", "prepared", "prepared_at", "mtime", "index")


def kind_of_path(path: str) -> str:
    """Return ``metadataset``, ``records`` (a file of samples), ``checkpoint`` or ``dataset``."""
    if is_metadataset(path):
        return "metadataset"
    if is_record_file(path):
        return "records"
    if path.endswith(_CHECKPOINT_SUFFIXES) and not EPath(path).is_dir():
        return "checkpoint"
    if is_prepared(DatasetRef(path).storage()):
        return "dataset"
    return "checkpoint" if _has_states(path) else "dataset"


def _has_states(folder: str) -> bool:
    try:
        return EPath(folder).is_dir() and bool(list_state_files(folder))
    except StorageError:  # the comparison reports what is missing, or that a web server lists no files
        return False


def compare_paths(
    before: str,
    after: str,
    *,
    split_part: str | None = None,
    contents: bool = False,
    place: str | None = None,
    trust_code: bool = False,
    max_differences: int = 1000,
    on_progress: Callable[[int, int], None] | None = None,
) -> DiffReport:
    """Compare two datasets, two metadatasets, two files of samples, two checkpoints, or a checkpoint and data.

    Tar shards that are not prepared are scanned first.

    Args:
        before: The path A; the checkpoint, if only one is.
        split_part: Split part that is trained on, for a checkpoint and data; None takes the checkpoint's.
        place: Place of the states within checkpoints, such as ``loader``; None: the only run in each.
        max_differences: How many differences are kept; all are counted.
    """
    kinds = (kind_of_path(before), kind_of_path(after))
    found = DifferenceList(limit=max_differences)
    # Compare what the paths name, by its kind.
    resumes: bool | None = None
    if kinds == ("checkpoint", "checkpoint"):
        from .checkpoints import compare_checkpoints

        resumes = compare_checkpoints(before, after, found, place=place)
    elif kinds[0] == "checkpoint":
        from .checkpoints import compare_checkpoint_with_data

        resumes = compare_checkpoint_with_data(
            before, after, found, split_part=split_part, place=place, trust_code=trust_code
        )
    elif kinds == ("metadataset", "metadataset"):
        compare_metadatasets(before, after, found)
    elif kinds == ("records", "records"):
        _compare_facts(before, after, found)
    elif kinds == ("dataset", "dataset"):
        _compare_folders((before, after), found, contents=contents, on_progress=on_progress)
    else:
        raise ConfigError(
            f"a {kinds[0]} and a {kinds[1]} cannot be compared",
            at=f"{before}, {after}",
            hint=f"swap them: energon diff {after} {before}"
            if kinds[1] == "checkpoint"
            else "compare two of one kind, or a checkpoint with a dataset or metadataset",
        )
    # Report the first differences.
    return DiffReport(
        kinds=kinds,
        before=before,
        after=after,
        differences=tuple(found.kept),
        count=found.count,
        resumes=resumes,
        notes=tuple(found.notes),
    )


def _compare_folders(
    paths: tuple[str, str],
    found: DifferenceList,
    *,
    contents: bool,
    on_progress: Callable[[int, int], None] | None,
) -> None:
    """Compare two datasets of shards; those that are not prepared are scanned first."""
    from ...dataset.unprepared.tar_index import index_temporarily
    from .datasets import compare_datasets

    with ExitStack() as stack:
        scanned = [index_temporarily(DatasetRef(path), stack) for path in paths]
        folders = [folder_at(index or data_path(path)) for path, index in zip(paths, scanned, strict=True)]
        prepared = scanned == [None, None]
        compare_datasets(folders[0], folders[1], found, contents=contents, documents=prepared, on_progress=on_progress)
        if prepared and folders[0].index.uuid != folders[1].index.uuid:
            found.notes.append(_OTHER_INDEX)


def _compare_facts(before: str, after: str, found: DifferenceList) -> None:
    """Compare two files of samples by the facts about them."""
    from ..facts import path_facts

    facts: list[dict[str, Any]] = [
        {name: value for name, value in path_facts(path).items() if name not in _UNCOMPARED} for path in (before, after)
    ]
    found.extend(differences(facts[0], facts[1]))


def compare_metadatasets(before: str, after: str, found: DifferenceList) -> None:
    """Compare what two metadatasets mean: the leaves of each split, with their shares of the mix and their settings.

    How the documents are nested does not count.
    """
    from ..metadataset import metadataset_facts  # imported late: only metadatasets need the planner

    splits, splits_now = (
        {split["name"]: split for split in metadataset_facts(path)["splits"]} for path in (before, after)
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
    found.add_order(f"{name}: leaves", [*leaves], [*leaves_now])


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
