"""Collect the statistics of a dataset."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...accounting.large_parts import CHECKED_JSON_BYTES
from ...accounting.part_sets import PartSets
from ...arrays import IntArray
from ...errors import ConfigError
from ...format.columns.column import write_column
from ...format.dataset_folder import DatasetFolder
from ...format.documents.messages import did_you_mean
from ...format.query import SampleQuery, find_samples
from ...format.single_file import SingleFile, open_samples
from ...format.worker_pool import run_in_workers
from ...version import __version__
from .distribution import Distribution, TopValues
from .duplicates import duplicate_groups
from .scan import Broken, ScanResult, ScanTask, media_parts, scan_samples
from .values import Value

_SAMPLES_AT_ONCE = 2000
_MAX_CATEGORIES = 1000
_MAX_NAMES = 1000  # of numbers, and of texts
_MAX_BROKEN = 100  # that are named
_UNITS = {"width": "pixels", "height": "pixels", "duration": "seconds", "bytes": "bytes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsRequest:
    """The statistics to collect.

    Attributes:
        path: A prepared dataset.
        query: Only these samples.
        numbers: Of them, only those of these numbers; None for all.
        parts: Only these parts; None for all.
        sample: Only so many random samples; None for all.
        dedupe: Find duplicates by this part; ``""`` by all pictures, audio and video, or else by all parts; None finds
            none.
        write: Names of values to keep as columns: ``jpg.width``, or ``width`` if one part has it.
        tokenizer: A JSON file of tokenizers, or ``module:callable``.
        workers: Number of processes.
        trust_code: The tokenizer may be imported.
        split_config: Name of the split file; None for the default one.
        meta_folder: Folder to use instead of ``.nv-meta``.
        max_json_bytes: Larger JSON parts are not parsed; None for no limit.
    """

    path: str
    query: SampleQuery = field(default_factory=SampleQuery)
    numbers: IntArray | None = None
    parts: tuple[str, ...] | None = None
    sample: int | None = None
    dedupe: str | None = None
    write: tuple[str, ...] = ()
    tokenizer: str | None = None
    workers: int = 1
    trust_code: bool = False
    split_config: str | None = None
    meta_folder: str | None = None
    max_json_bytes: int | None = CHECKED_JSON_BYTES


@dataclass(slots=True, kw_only=True)
class StatsReport:
    """The statistics of a dataset.

    Attributes:
        path: The dataset.
        population: Number of the samples that the request names.
        samples: Number of those that were read.
        numbers: Name → distribution: ``jpg.width``, ``txt.chars``, ``json.score`` …
        texts: Name → most frequent texts.
        broken: The first parts that are not what their names say.
        broken_count: Number of all of them.
        large: The first parts that were not parsed, because they are larger than the limit.
        large_count: Number of all of them.
        duplicates: Groups of samples with the same content, ``<shard>/<key>``.
        duplicate_numbers: The same groups, as numbers of samples.
        hashed_parts: The parts by which they were found; empty for all parts.
        is_cut: There are names of values that are omitted, since fields of JSON have more than 1,000.
        written: Columns that were written.
        part_sets: The part sets of all samples of the dataset, whichever the request names.
    """

    path: str
    population: int
    samples: int = 0
    numbers: dict[str, Distribution] = field(default_factory=dict)
    texts: dict[str, TopValues] = field(default_factory=dict)
    broken: list[Broken] = field(default_factory=list)
    broken_count: int = 0
    large: list[Broken] = field(default_factory=list)
    large_count: int = 0
    duplicates: list[list[str]] | None = None
    duplicate_numbers: list[list[int]] = field(default_factory=list)
    hashed_parts: tuple[str, ...] = ()
    is_cut: bool = False
    written: list[str] = field(default_factory=list)
    part_sets: PartSets = field(default_factory=lambda: PartSets(sets=(), samples=0))

    @property
    def is_sampled(self) -> bool:
        """True if only a random part of the samples was read."""
        return self.samples < self.population

    def document(self) -> dict[str, Any]:
        """Return the statistics as plain data."""
        population = self.population if self.is_sampled else None
        return {
            "path": self.path,
            "population": self.population,
            "samples": self.samples,
            "numbers": {name: one.document(population) for name, one in sorted(self.numbers.items())},
            "texts": {name: one.document() for name, one in sorted(self.texts.items())},
            "broken": _named(self.broken, self.broken_count),
            "large": _named(self.large, self.large_count),
            "complete": not self.is_cut,
            "duplicates": self.duplicates,
            "columns": self.written,
            "part_sets": self.part_sets.to_document(),
        }

    def add(self, result: ScanResult) -> None:
        """Add the values of further samples."""
        self.samples += result.samples
        for name, numbers in result.numbers.items():
            if self._has_room(name, self.numbers):
                self.numbers.setdefault(name, Distribution()).add(numbers)
        for name, counts in result.texts.items():
            if self._has_room(name, self.texts):
                self.texts.setdefault(name, TopValues()).add(counts)
        self.broken += result.broken[: _MAX_BROKEN - len(self.broken)]
        self.broken_count += result.broken_count
        self.large += result.large[: _MAX_BROKEN - len(self.large)]
        self.large_count += result.large_count

    def _has_room(self, name: str, known: Mapping[str, object]) -> bool:
        """Return True if a name is counted; keys of JSON may be different in each sample."""
        if name in known or len(known) < _MAX_NAMES:
            return True
        self.is_cut = True
        return False


def _named(parts: Sequence[Broken], count: int) -> dict[str, Any]:
    first = [{"sample": one.sample, "part": one.part, "reason": one.reason} for one in parts]
    return {"count": count, "first": first}


def collect_stats(request: StatsRequest, on_progress: Callable[[int, int], None] | None = None) -> StatsReport:
    """Collect the statistics of a prepared dataset.

    Args:
        request: What to collect.
        on_progress: Called with the number of samples that are read, and of all.

    Raises:
        ConfigError: The query is invalid, or a value to write does not exist.
        FormatError: A shard has changed, or the index is damaged.
        StorageError: The dataset is not prepared, or cannot be read.
        TrustError: The tokenizer is code that may not run.
    """
    folder = open_samples(request.path, split_config=request.split_config, meta_folder=request.meta_folder)
    if request.write and isinstance(folder, SingleFile):
        raise ConfigError(
            "a single file has no columns",
            at=request.path,
            hint="move it to a folder of its own, run energon prepare on the folder, and name the folder",
        )
    every = find_samples(folder, request.query)
    if request.numbers is not None:
        every = np.intersect1d(every, request.numbers)
    chosen = _random_samples(every, request.sample)
    if request.write and len(chosen) < len(folder.index):
        raise ConfigError(
            "a column needs a value of every sample", at=request.path, hint="omit --sample and the conditions"
        )
    report = StatsReport(path=request.path, population=len(every), part_sets=folder.index.part_sets())
    kept: dict[str, tuple[list[int], list[Value]]] = {}
    hashes = np.empty(len(chosen), np.uint64) if request.dedupe is not None else None
    report.hashed_parts = _hashed_parts(folder, request)
    tasks = list(_tasks(folder, chosen, request, report.hashed_parts))
    starts = np.cumsum([0, *(len(task.samples) for task in tasks)])
    for number, result in run_in_workers(scan_samples, tasks, workers=request.workers):
        report.add(result)
        if hashes is not None:
            hashes[starts[number] : starts[number + 1]] = result.hashes
        for name, (samples, values) in result.kept.items():
            all_samples, all_values = kept.setdefault(name, ([], []))
            all_samples += samples
            all_values += values
        if on_progress is not None:
            on_progress(report.samples, len(chosen))
    if hashes is not None:
        report.duplicate_numbers = duplicate_groups(folder, chosen, hashes, report.hashed_parts)
        report.duplicates = [[folder.index.full_key(one) for one in group] for group in report.duplicate_numbers]
    for name in request.write:
        _write(folder, name, kept, report)
    return report


def _random_samples(every: IntArray, count: int | None) -> IntArray:
    if count is None or count >= len(every):
        return every
    return np.sort(np.random.default_rng(0).choice(every, count, replace=False))


def _hashed_parts(folder: DatasetFolder, request: StatsRequest) -> tuple[str, ...]:
    names = folder.index.part_names
    if request.dedupe and request.dedupe not in names:
        raise ConfigError(
            f"there is no part {request.dedupe!r}{did_you_mean(request.dedupe, names[:20])}",
            at=request.path,
            hint="name a part of the samples",
        )
    return (request.dedupe,) if request.dedupe else media_parts(names)


def _tasks(
    folder: DatasetFolder, chosen: IntArray, request: StatsRequest, hashed: tuple[str, ...]
) -> Iterator[ScanTask]:
    firsts = np.array([shard.first_sample for shard in folder.index.shards])
    ends = np.searchsorted(chosen, [*firsts[1:], len(folder.index)])
    start = 0
    for end in ends.tolist():
        for first in range(start, end, _SAMPLES_AT_ONCE):
            yield ScanTask(
                path=request.path,
                meta_folder=request.meta_folder,
                samples=chosen[first : min(first + _SAMPLES_AT_ONCE, end)],
                parts=request.parts,
                hashed=None if request.dedupe is None else hashed,
                kept=frozenset(_candidates(request.write, folder.index.part_names)),
                tokenizer=request.tokenizer,
                trust_code=request.trust_code,
                max_json_bytes=request.max_json_bytes,
            )
        start = end


def _candidates(names: Sequence[str], parts: Sequence[str]) -> Iterator[str]:
    """Yield the full names that names of values may stand for."""
    for name in names:
        yield name
        yield from (f"{part}.{name}" for part in parts)


def _write(
    folder: DatasetFolder, name: str, kept: dict[str, tuple[list[int], list[Value]]], report: StatsReport
) -> None:
    """Write a column.

    Raises:
        ConfigError: No sample has the value, or several parts have it.
    """
    found = [one for one in dict.fromkeys(_candidates([name], folder.index.part_names)) if kept.get(one, ((), ()))[0]]
    if name in found:
        found = [name]
    if len(found) != 1:
        known = sorted({*report.numbers, *report.texts})
        what = f"several parts have {name!r}: {', '.join(found)}" if found else f"no sample has the value {name!r}"
        what += "" if found else did_you_mean(name, known[:30])
        hint = "name one of these, or a value that energon stats shows"
        if not found and name.rpartition(".")[2] == "tokens":
            hint = "tokens are counted with --tokenizer: a .json file of tokenizers, or module:callable"
        raise ConfigError(what, at=report.path, hint=hint)
    samples, values = np.array(kept[found[0]][0]), kept[found[0]][1]
    column = re.sub(r"[^A-Za-z0-9_]", "_", name)
    texts = [value for value in values if isinstance(value, str)]
    made_by = f"energon stats {__version__}"
    if texts:
        categories = sorted(set(texts))
        if len(categories) > _MAX_CATEGORIES or len(texts) < len(values):
            raise ConfigError(
                f"expected at most {_MAX_CATEGORIES:,} different texts for column {name!r}, found {len(categories):,}"
                if len(texts) == len(values)
                else f"column {name!r} would mix texts and numbers",
                at=report.path,
                hint="write another value",
            )
        codes = np.full(len(folder.index), -1, np.int16)
        codes[samples] = np.searchsorted(np.array(categories), np.array(texts))
        write_column(
            folder.storage,
            folder.index,
            column,
            codes,
            missing=-1,
            categories=categories,
            description=found[0],
            made_by=made_by,
        )
    else:
        unit = _UNITS.get(found[0].rpartition(".")[2], "")
        filled, missing = _filled(len(folder.index), samples, np.array(values, np.float64))
        write_column(
            folder.storage,
            folder.index,
            column,
            filled,
            missing=missing,
            unit=unit,
            description=found[0],
            made_by=made_by,
        )
    report.written.append(column)


def _filled(count: int, samples: IntArray, values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[Any], float | None]:
    """Return values of all samples: integers if all are, with -1 or the least integer for those without one."""
    is_whole = bool((values == np.floor(values)).all()) and bool((np.abs(values) < 2**53).all())
    if not is_whole:
        filled = np.full(count, np.nan)
        filled[samples] = values
        return filled, None
    missing = -1 if not len(values) or values.min() >= 0 else int(values.min()) - 1
    whole = np.full(count, missing, np.int64)
    whole[samples] = values.astype(np.int64)
    for dtype in (np.int16, np.int32):
        if np.iinfo(dtype).min <= whole.min() and whole.max() <= np.iinfo(dtype).max:
            return whole.astype(dtype), missing
    return whole, missing
