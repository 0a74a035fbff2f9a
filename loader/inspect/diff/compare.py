"""Compare what two paths name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ...errors import ConfigError, StorageError
from ...format.dataset_folder import DatasetFolder
from ...format.documents.providers import data_path, is_metadataset, is_record_file
from ...format.nv_meta import DATASET_YAML, SPLIT_YAML, open_dataset_storage
from ...format.unprepared.tar_folder import is_prepared
from ...storage import EPath
from ...training.states import differences, list_state_files
from .report import DifferenceList, DiffReport

_CHECKPOINT_SUFFIXES = (".json", ".pt", ".pth", ".ckpt", ".pkl")
_OTHER_INDEX = "the indexes have different uuids: a state that was saved with A does not restore with B"
_UNCOMPARED = ("path", "prepared", "prepared_at", "mtime", "index")


def kind_of_path(path: str, *, meta_folder: str | None = None) -> str:
    """Return ``metadataset``, ``records`` (a file of samples), ``checkpoint`` or ``dataset``."""
    if is_metadataset(path):
        return "metadataset"
    if is_record_file(path):
        return "records"
    if path.endswith(_CHECKPOINT_SUFFIXES) and not EPath(path).is_dir():
        return "checkpoint"
    if is_prepared(open_dataset_storage(path, meta_folder)):
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
    split_config: str | None = None,
    dataset_config: str | None = None,
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
        after: The path B.
        split_part: Split part that is trained on, for a checkpoint and data; None: that of the checkpoint.
        split_config: Name of the split file; None: ``split.yaml``.
        dataset_config: Name of the dataset file; None: ``dataset.yaml``.
        contents: Compare the bytes of shards whose keys, parts and sizes are equal, too.
        place: Place of the states within checkpoints, such as ``loader``; None: the only run in each.
        trust_code: Allow the dataset to run its code.
        max_differences: How many differences are kept; all are counted.
        on_progress: Called with the numbers of compared shards and of all shards.

    Raises:
        ConfigError: The paths are of kinds that cannot be compared, or documents contain faults.
        FormatError: An index is damaged.
        StateError: A checkpoint has no state, or states of several runs.
        StorageError: A path is missing, or cannot be read.
    """
    kinds = (kind_of_path(before), kind_of_path(after))
    found = DifferenceList(limit=max_differences)
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
        from .metadatasets import compare_metadatasets

        compare_metadatasets(before, after, found)
    elif kinds == ("records", "records"):
        _compare_facts(before, after, found)
    elif kinds == ("dataset", "dataset"):
        _compare_folders(
            (before, after),
            found,
            split_config=split_config or SPLIT_YAML,
            dataset_config=dataset_config or DATASET_YAML,
            contents=contents,
            on_progress=on_progress,
        )
    else:
        raise ConfigError(
            f"a {kinds[0]} and a {kinds[1]} cannot be compared",
            at=f"{before}, {after}",
            hint=f"swap them: energon diff {after} {before}"
            if kinds[1] == "checkpoint"
            else "compare two of one kind, or a checkpoint with a dataset or metadataset",
        )
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
    split_config: str,
    dataset_config: str,
    contents: bool,
    on_progress: Callable[[int, int], None] | None,
) -> None:
    """Compare two datasets of shards; those that are not prepared are scanned first."""
    from ...format.unprepared.temporary_index import index_temporarily
    from .datasets import compare_datasets

    with ExitStack() as stack:
        scanned = [index_temporarily(path, None, stack) for path in paths]
        folders = [
            DatasetFolder(
                data_path(path) if index is None else index[0],
                split_config=split_config,
                dataset_config=dataset_config,
                meta_folder=None if index is None else index[1],
            )
            for path, index in zip(paths, scanned, strict=True)
        ]
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
