"""Build the files of a filter from the numbers of the samples to keep."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...errors import ConfigError, StorageError, plural
from ..dataset_ref import DatasetRef
from ..documents.dataset_files import read_shard_info
from ..documents.messages import did_you_mean
from ..documents.next_command import command_for_folder
from ..nv_meta import is_filter_name
from ..records.folder_index import open_record_path
from .rows import FilterFiles

_NUMBERS_AT_ONCE = 1 << 20


def build_filter_index(
    path: str | os.PathLike[str],
    name: str,
    indexes: Iterable[int] | npt.NDArray[Any],
    shards: Mapping[str, int] | Sequence[str] | None = None,
    *,
    meta_folder: str | os.PathLike[str] | None = None,
) -> None:
    """Write a filter: the samples of a dataset that ``filter: NAME`` in a metadataset keeps.

    Args:
        path: Folder of a prepared dataset, or a JSONL, token or Parquet file.
        name: Name of the filter.
        indexes: Numbers of the kept samples, from 0 over all shards in the order of ``.info.json``; in any order. An
            array of 8-byte integers in ascending order, which may be memory-mapped, is not copied.
        shards: The shards over which ``indexes`` counts, in order; by default all. As a mapping, each shard's number of
            samples is compared with the dataset's.
        meta_folder: Folder to use instead of the dataset's ``.nv-meta``.

    Raises:
        ConfigError: The name is not one of a filter, there is no such shard, or a number is out of range or repeated.
        StorageError: The dataset is missing or not prepared, or a file cannot be written.
    """
    files, sizes = _open(path, name, meta_folder)
    numbers = _as_numbers(indexes, files)
    if shards is not None:
        numbers = _over_all_shards(numbers, sizes, shards, files)
    _write(files, sizes, numbers)


def build_filter_index_from_shard_indexes(
    path: str | os.PathLike[str],
    name: str,
    shard_indexes: Mapping[str, Iterable[int] | npt.NDArray[Any]],
    *,
    meta_folder: str | os.PathLike[str] | None = None,
) -> None:
    """Write a filter from the numbers of samples within their shards.

    Args:
        path: Folder of a prepared dataset, or a JSONL, token or Parquet file.
        name: Name of the filter.
        shard_indexes: Shard → numbers of its kept samples, from 0. No sample of a missing shard is kept.
        meta_folder: Folder to use instead of the dataset's ``.nv-meta``.

    Raises:
        ConfigError: The name is not one of a filter, there is no such shard, or a number is out of range or repeated.
        StorageError: The dataset is missing or not prepared, or a file cannot be written.
    """
    files, sizes = _open(path, name, meta_folder)
    _check_shards(shard_indexes, sizes, files)
    kept = [np.empty(0, np.int64)]
    first = 0
    for shard, samples in sizes.items():
        numbers = _as_numbers(shard_indexes.get(shard, ()), files)
        _check_range(numbers, samples, f"shard {shard!r}", files)
        kept.append(numbers + first)
        first += samples
    _write(files, sizes, np.concatenate(kept))


def check_filter_name(name: str, *, at: str) -> None:
    """Raise a ``ConfigError`` if a filter may not have this name."""
    if not is_filter_name(name):
        raise ConfigError(
            f"expected the name of a filter, found {name!r}",
            at=at,
            hint="use letters, digits, '.', '_' and '-'",
        )


def _open(
    path: str | os.PathLike[str], name: str, folder: str | os.PathLike[str] | None
) -> tuple[FilterFiles, dict[str, int]]:
    """Return the files of a filter, and the number of samples of each shard in order."""
    check_filter_name(name, at=os.fspath(path))
    ref = DatasetRef.of(path)
    if ref.kind.is_file:
        file = open_record_path(ref.path)
        return FilterFiles.of_file(file.storage, file.name, name), {file.name: len(file)}
    storage = DatasetRef.at(path, folder).storage()
    sizes = read_shard_info(storage)
    if sizes is None:
        raise StorageError(
            "this folder is not a prepared dataset: it has no .nv-meta/.info.json",
            path=storage.path(""),
            hint=command_for_folder(os.fspath(path)),
        )
    return FilterFiles.of_dataset(storage, name), sizes


def _as_numbers(indexes: Iterable[int] | npt.NDArray[Any], files: FilterFiles) -> IntArray:
    """Return ascending numbers; they are copied only if they are not."""
    array = indexes if isinstance(indexes, np.ndarray) else np.array(list(indexes))
    if not len(array):
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise _invalid(f"expected the numbers of samples, found an array of {array.dtype}", files)
    if array.dtype.itemsize == 8:
        numbers: IntArray = array.view(np.int64)  # unsigned numbers beyond its range are negative, and out of range
    else:
        numbers = array.astype(np.int64)
    if not all((some[1:] > some[:-1]).all() for some in _overlapping_blocks(numbers)):
        numbers = np.sort(numbers)
        repeated = np.flatnonzero(numbers[1:] == numbers[:-1])
        if len(repeated):
            raise _invalid(f"sample {int(numbers[repeated[0]])} comes twice", files)
    return numbers


def _overlapping_blocks(numbers: IntArray) -> Iterator[IntArray]:
    """Yield blocks that share one number with the next, to compare neighbours in little memory."""
    for start in range(0, len(numbers), _NUMBERS_AT_ONCE):
        yield numbers[start : start + _NUMBERS_AT_ONCE + 1]


def _over_all_shards(
    numbers: IntArray, sizes: dict[str, int], shards: Mapping[str, int] | Sequence[str], files: FilterFiles
) -> IntArray:
    """Convert numbers over some shards to numbers over all shards."""
    _check_shards(shards, sizes, files)
    if isinstance(shards, Mapping):
        for shard, samples in shards.items():
            if samples != sizes[shard]:
                raise _invalid(f"expected {plural(samples, 'sample')} in shard {shard!r}, found {sizes[shard]}", files)
    stops = np.cumsum([sizes[shard] for shard in shards])
    _check_range(numbers, int(stops[-1]) if len(stops) else 0, "these shards", files)
    first = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    shift = np.array([first[shard] for shard in shards]) - np.concatenate([[0], stops[:-1]])
    return np.sort(numbers + shift[stops.searchsorted(numbers, side="right")])


def _check_shards(shards: Iterable[str], sizes: dict[str, int], files: FilterFiles) -> None:
    for shard in shards:
        if shard not in sizes:
            raise _invalid(f"there is no shard {shard!r}{did_you_mean(shard, [*sizes][:1000])}", files)


def _check_range(numbers: IntArray, samples: int, where: str, files: FilterFiles) -> None:
    if len(numbers) and not 0 <= numbers[0] <= numbers[-1] < samples:
        wrong = int(numbers[0] if numbers[0] < 0 else numbers[-1])
        raise _invalid(f"there is no sample {wrong} among the {samples} of {where}", files)


def _write(files: FilterFiles, sizes: dict[str, int], numbers: IntArray) -> None:
    _check_range(numbers, sum(sizes.values()), "the dataset", files)
    ends = np.searchsorted(numbers, np.cumsum([0, *sizes.values()]), side="left").tolist()
    counts = {shard: stop - start for shard, (start, stop) in zip(sizes, pairwise(ends), strict=True)}
    pieces = (numbers[start : start + _NUMBERS_AT_ONCE] for start in range(0, len(numbers), _NUMBERS_AT_ONCE))
    files.write(counts, pieces)


def _invalid(fault: str, files: FilterFiles) -> ConfigError:
    return ConfigError(fault, at=files.path, hint="pass the numbers of the samples to keep, each once")
