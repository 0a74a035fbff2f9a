"""Collect the statistics of a dataset, and find samples with the same content."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...dataset.dataset import Dataset
from ...dataset.job_journal import digest_of_numbers, job_journal, request_of_data
from ...dataset.opening import dataset_at
from ...dataset.query import SampleQuery, find_samples
from ...dataset.query.dataset_values import DatasetValues, only_value
from ...dataset.records import SingleFile
from ...encoder_costs import EncoderCosts
from ...engine.run import JobTasks, RunsOnEngine, in_order
from ...errors import ConfigError, EnergonError
from ...escaped_log import get_logger
from ...format.columns.column import DATE
from ...format.columns.column_files import write_column
from ...format.columns.column_record import BY_STATS, column_of, read_record, value_of_column
from ...format.dataset_ref import DatasetRef
from ...format.documents.messages import did_you_mean
from ...format.documents.value_name import ValueName, parse_value_name
from ...metadataset.datasets import NumberedDatasets, OpenDataset
from ...parts.large_parts import CHECKED_JSON_BYTES
from ...parts.part_sets import PartSets
from ...version import __version__
from .distribution import Distribution, TopValues
from .scan import Broken, ScanTask, media_parts
from .summary import ColumnValues, SampleSummary, summarize_samples, unpacked, unpacked_part

_log = get_logger(__name__)
_MAX_CATEGORIES = 1000  # different texts of a column
_MAX_NAMES = 1000  # of numbers, and of texts
_MAX_BROKEN = 100  # that are named
_UNITS = {"width": "pixels", "height": "pixels", "duration": "seconds", "bytes": "bytes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsRequest(RunsOnEngine):
    """The statistics to collect.

    Attributes:
        ref: A prepared dataset; with ``trust_code``, the tokenizer may be imported.
        numbers: Numbers of the samples that the query may choose; None for all.
        parts: Only these parts; None for all.
        sample: Only so many random samples; None for all.
        dedupe: Find duplicates by this part; ``""`` by all pictures, audio and video, or else by all parts; None finds
            none.
        write: Names of values to keep as columns: ``jpg.width``, or ``width`` if no other value is called so.
        costs: The model whose costs of pictures are kept as columns, with its settings: ``qwen2.5-vl``; with a
            tokenizer, also the tokens of texts and pictures.
        tokenizer: A JSON file of tokenizers, or ``module:callable``.
        max_json_bytes: Larger JSON parts are not parsed; None for no limit.
        engine: Where the tasks run; None for processes. In a share, summaries are stored in ``.nv-meta``, and
            :class:`.ShareDone` is raised; after a merge, :meth:`.Engine.discard_merged` removes them.
        command: Name of the command that runs the shares, for messages.
    """

    ref: DatasetRef
    query: SampleQuery = field(default_factory=SampleQuery)
    numbers: IntArray | None = None
    parts: tuple[str, ...] | None = None
    sample: int | None = None
    dedupe: str | None = None
    write: tuple[str, ...] = ()
    costs: str | None = None
    tokenizer: str | None = None
    max_json_bytes: int | None = CHECKED_JSON_BYTES
    command: str = "stats"


@dataclass(slots=True, kw_only=True)
class StatsReport:
    """The statistics of a dataset.

    Attributes:
        numbers: Name → distribution: ``jpg.width``, ``txt.chars``, ``json[score]`` …, and columns of other commands.
        texts: Name → most frequent texts.
        broken: The first parts that are not what their names say.
        large: The first parts that were not parsed, because they are larger than the limit.
        duplicates: Groups of samples with the same content, ``<shard>/<key>``.
        hashed_parts: The parts by which they were found; empty for all parts.
        hashes: Shape (n,): the hash of the content of each sample of ``hashed_samples``; 0 for samples without it.
        is_cut: There are names of values that are omitted, since fields of JSON have more than 1,000.
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
    hashed_samples: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    hashes: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    is_cut: bool = False
    written: list[str] = field(default_factory=list)
    written_values: list[str] = field(default_factory=list)
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
            "numbers": {
                key: {"name": name, **self.numbers[name].document(population)} for key, name in _dotted(self.numbers)
            },
            "texts": {key: {"name": name, **self.texts[name].document()} for key, name in _dotted(self.texts)},
            "broken": _named(self.broken, self.broken_count),
            "large": _named(self.large, self.large_count),
            "complete": not self.is_cut,
            "duplicates": self.duplicates,
            "columns": self.written,
            "part_sets": self.part_sets.to_document(),
        }

    def add(self, result: SampleSummary) -> None:
        """Add the values of further samples."""
        # Distributions take values of any number of tasks; only the first broken parts are kept.
        self.samples += result.samples
        for packed, numbers in result.numbers.items():
            if self._has_room(name := unpacked(packed), self.numbers):
                self.numbers.setdefault(name, Distribution()).join(numbers)
        for packed, counts in result.texts.items():
            if self._has_room(name := unpacked(packed), self.texts):
                self.texts.setdefault(name, TopValues()).add({unpacked(text): n for text, n in counts.items()})
        self.broken += map(unpacked_part, result.broken[: _MAX_BROKEN - len(self.broken)])
        self.broken_count += result.broken_count
        self.large += map(unpacked_part, result.large[: _MAX_BROKEN - len(self.large)])
        self.large_count += result.large_count

    def _has_room(self, name: str, known: Mapping[str, object]) -> bool:
        # Keys of JSON may be different in each sample.
        if name in known or len(known) < _MAX_NAMES:
            return True
        self.is_cut = True
        return False


def _dotted(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield names and, before each one, its form with dots as a key; a second value with this form has its name."""
    taken: set[str] = set()
    for name in sorted(names):
        dotted = parse_value_name(name).dotted
        yield name if dotted in taken else dotted, name
        taken.add(dotted)


def _named(parts: Sequence[Broken], count: int) -> dict[str, Any]:
    first = [{"sample": broken.sample, "part": broken.part, "reason": broken.reason} for broken in parts]
    return {"count": count, "first": first}


def collect_stats(request: StatsRequest, on_progress: Callable[[int, int], None] | None = None) -> StatsReport:
    """Collect the statistics of a dataset.

    Values are added in the order of the samples, so that the result does not depend on the engine.

    Raises:
        TrustError: The tokenizer is code that may not run.
        ShareDone: The engine runs one share, which is done.
        ConfigError: Shares are missing that a merge needs, or had other options.
    """
    # Choose the samples.
    path = request.ref.path
    folder = dataset_at(request.ref)
    writes = bool(request.write) or request.costs is not None
    if writes and isinstance(folder, SingleFile):
        raise ConfigError(
            "a single file has no columns",
            at=path,
            hint="move it to a folder of its own, run energon prepare on the folder, and name the folder",
        )
    every = find_samples(folder, request.query)
    if request.numbers is not None:
        every = np.intersect1d(every, request.numbers)
    chosen = _random_samples(every, request.sample)
    if writes and len(chosen) < len(folder.index):
        raise ConfigError("a column needs a value of every sample", at=path, hint="omit --limit and the conditions")
    # Describe the tasks, each with samples of one shard.
    report = StatsReport(path=path, population=len(every), part_sets=folder.index.part_sets)
    kept: defaultdict[str, ColumnValues] = defaultdict(ColumnValues)
    hashes = np.empty(len(chosen), np.uint64) if request.dedupe is not None else None
    report.hashed_parts = _hashed_parts(folder, request)
    meant = dict.fromkeys(value for name in request.write for value in _meant(folder, name, path))
    costs = None if request.costs is None else EncoderCosts.parse(request.costs)
    if costs is not None:
        names = ("width", "height", *(["tokens"] if request.tokenizer else []))
        meant |= dict.fromkeys(value for name in names for value in _meant(folder, name, path) if not value.path)
    task = ScanTask(
        ref=request.ref if request.runs_on.sees_this_disk else request.ref.resolved(),
        samples=chosen,
        index_uuid=str(folder.index.uuid),
        parts=None if request.parts is None else _matching(folder.index.part_names, request.parts),
        hashed=None if request.dedupe is None else report.hashed_parts,
        kept=tuple(meant),
        tokenizer=request.tokenizer,
        max_json_bytes=request.max_json_bytes,
    )
    tasks = list(task.of_shards(folder))
    starts = np.cumsum([0, *(len(task.samples) for task in tasks)])
    # Read the samples, and add their values.
    for task_index, result in in_order(_results(request, folder, task, tasks, on_progress)):
        report.add(result)
        if hashes is not None:
            hashes[starts[task_index] : starts[task_index + 1]] = np.frombuffer(result.hashes, "<u8")
        for packed, values in result.kept.items():
            kept[unpacked(packed)].add(values)
        if on_progress is not None:
            on_progress(report.samples, len(chosen))
    # Compare samples of one hash, and write columns.
    if hashes is not None:
        report.hashed_samples, report.hashes = chosen, hashes
        with closing(folder):
            report.duplicate_numbers = _equal_groups(
                chosen, hashes, lambda sample: folder.read_parts(sample, report.hashed_parts or None)
            )
        report.duplicates = [[folder.index.full_key(sample) for sample in group] for group in report.duplicate_numbers]
    if request.parts is None:
        _add_columns(folder, every, report)
    for name in request.write:
        _write(folder, name, kept, report)
    if costs is not None:
        _write_costs(folder, costs, kept, report)
    return report


def _add_columns(folder: Dataset, samples: IntArray, report: StatsReport) -> None:
    """Add the values of the columns that have others than parts do, such as results of ``energon map``; no vectors."""
    for name in folder.documents.column_names():
        try:
            record = read_record(folder.storage, name)
            if record.length or record.made_by.startswith(BY_STATS):
                continue
            columns = DatasetValues(folder, [name], samples)
            numbers, texts = Distribution(), TopValues()
            for start in range(0, len(samples), columns.rows_at_once):
                some = columns.values(name, samples[start : start + columns.rows_at_once])
                of_texts = some.texts()
                if of_texts is None:
                    numbers.add(some.values[some.known])
                else:
                    texts.add(Counter(of_texts))
        except EnergonError as error:
            _log.warning("%s", error)
            continue
        # Conditions mean the column by this name, too.
        if numbers.count:
            report.numbers[name] = numbers
        elif texts.count:
            report.texts[name] = texts


def _results(
    request: StatsRequest,
    folder: Dataset,
    whole: ScanTask,
    tasks: Sequence[ScanTask],
    on_progress: Callable[[int, int], None] | None,
) -> Iterator[tuple[int, SampleSummary]]:
    """Yield the number of each task and its summary, in any order; results of shares are stored."""
    engine = request.runs_on
    if not engine.is_partial:
        with closing(engine.run(summarize_samples, tasks)) as results:
            yield from results
        return
    # The options name the journal; the samples must be the same, too.
    options = {
        "parts": str(whole.parts),
        "duplicates": str(whole.hashed),
        "values": str([str(name) for name in whole.kept]),
        "tokenizer": str(whole.tokenizer),
        "limit of JSON": str(whole.max_json_bytes),
    }
    job: JobTasks[SampleSummary] = JobTasks(
        function=summarize_samples,
        tasks=tasks,
        sizes=[len(task.samples) for task in tasks],
        journal=job_journal(request.ref, "stats", options, SampleSummary),
        command=request.command,
        request={
            **options,
            **request_of_data(folder),
            "choice of samples": digest_of_numbers(whole.samples),
            "version of energon-toolkit": __version__,
        },
    )
    done, share = 0, engine.share
    for task_index, result in job.run(engine):
        done += result.samples
        if share is None:
            yield task_index, result
        elif on_progress is not None:
            on_progress(done, max(done, len(whole.samples) // share.count))


def _random_samples(every: IntArray, count: int | None) -> IntArray:
    if count is None or count >= len(every):
        return every
    return np.sort(np.random.default_rng(0).choice(every, count, replace=False))


def _hashed_parts(folder: Dataset, request: StatsRequest) -> tuple[str, ...]:
    names = folder.index.part_names
    if request.dedupe and request.dedupe not in names:
        raise ConfigError(
            f"there is no part {request.dedupe!r}{did_you_mean(request.dedupe, names[:20])}",
            at=request.ref.path,
            hint="name a part of the samples",
        )
    return (request.dedupe,) if request.dedupe else media_parts(names)


def _matching(names: Sequence[str], patterns: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns))


def _meant(folder: Dataset, name: str, at: str) -> tuple[ValueName, ...]:
    if name == "bytes" and folder.index.names.has_sizes:
        return (ValueName("", (), name),)  # of all parts
    try:
        meant = folder.index.names.meant(name)
    except ValueError as error:
        raise ConfigError(f"{name!r} is not a name of a value: {error}", at=at) from error
    return meant


def _write(folder: Dataset, name: str, kept: Mapping[str, ColumnValues], report: StatsReport) -> None:
    # Find the value that is meant.
    existing = [each for each in _meant(folder, name, report.path) if str(each) in kept and len(kept[str(each)])]
    value = only_value(name, existing, at=report.path, known=sorted({*report.numbers, *report.texts}))
    values = kept[str(value)]
    column = _free_name(folder, name, value)
    # Encode texts as categories, and numbers as the smallest type that holds them.
    options: dict[str, Any] = {"description": str(value), "made_by": f"{BY_STATS} {__version__}"}
    samples, texts = values.texts()
    if values.are_dates:
        codes = np.full(len(folder.index), "NaT", DATE)
        codes[samples] = np.array(texts, DATE)
    elif texts:
        # A column has texts or numbers, and a bounded number of texts.
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
        options |= {"missing": -1, "categories": categories}
    else:
        codes, missing = _filled(len(folder.index), *values.numbers())
        options |= {"missing": missing, "unit": _UNITS.get(value.trait, "")}
    # Write the column, and name it in the report.
    write_column(folder.storage, folder.index, column, codes, **options)
    report.written.append(column)
    report.written_values.append(str(value))


def _write_costs(folder: Dataset, costs: EncoderCosts, kept: Mapping[str, ColumnValues], report: StatsReport) -> None:
    """Write the costs of the pictures of each sample: how many there are, their tokens and their patches."""
    columns = {name: np.zeros(len(folder.index)) for name in ("pictures", "vision_tokens", "vision_patches")}
    pictures = [value for value in _meant(folder, "width", report.path) if str(value) in kept and not value.path]
    for value in pictures:
        samples, widths = kept[str(value)].numbers()
        _, heights = kept[str(replace(value, trait="height"))].numbers()
        tokens, patches = costs(widths, heights)
        for name, values in (
            ("pictures", np.ones(len(samples))),
            ("vision_tokens", tokens),
            ("vision_patches", patches),
        ):
            np.add.at(columns[name], samples, values)
    # With a tokenizer, the tokens of a sample are those of its texts and of its pictures.
    texts = [name for name in kept if name.endswith(".tokens")]
    if texts:
        columns["tokens"] = columns["vision_tokens"].copy()
        for name in texts:
            samples, numbers = kept[name].numbers()
            np.add.at(columns["tokens"], samples, numbers)
    if not pictures and not texts:
        raise ConfigError(
            "no sample has a picture",
            at=report.path,
            hint="energon stats shows which parts there are; omit --write-costs",
        )
    made_by = f"{BY_STATS} {__version__}"
    for name, values in columns.items():
        known = np.flatnonzero(~np.isnan(values))
        filled, missing = _filled(len(folder.index), known, values[known])
        text = f"{name} of {costs}"
        write_column(folder.storage, folder.index, name, filled, description=text, made_by=made_by, missing=missing)
        report.written.append(name)
        report.written_values.append(name)


def _free_name(folder: Dataset, name: str, value: ValueName) -> str:
    """Return the name of a value's column: the one it has, or one that no other value has."""
    start = name if name.isidentifier() and name.isascii() else column_of(folder.storage, value) or value.identifier
    known, suffix, free = folder.documents.column_names(), 1, start
    while free in known and value_of_column(folder.storage, free) not in (str(value), value.dotted):
        suffix += 1
        free = f"{start}_{suffix}"
    return free


def _filled(count: int, samples: IntArray, values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[Any], float | None]:
    """Return values of all samples: integers if all are, with -1 or the least integer for those without one."""
    # Integers up to 2**53 are exact as floats.
    is_whole = bool((values == np.floor(values)).all()) and bool((np.abs(values) < 2**53).all())
    if not is_whole:
        filled = np.full(count, np.nan)
        filled[samples] = values
        return filled, None
    # A value that no sample has marks those without one.
    missing = -1 if not len(values) or values.min() >= 0 else int(values.min()) - 1
    whole = np.full(count, missing, np.int64)
    whole[samples] = values.astype(np.int64)
    for dtype in (np.int16, np.int32):
        if np.iinfo(dtype).min <= whole.min() and whole.max() <= np.iinfo(dtype).max:
            return whole.astype(dtype), missing
    return whole, missing


def _equal_groups(
    samples: IntArray, hashes: npt.NDArray[np.uint64], read: Callable[[int], Mapping[str, object]]
) -> list[list[int]]:
    """Return groups of samples with the same bytes, the largest first; samples of one hash are compared byte by byte.

    The numbers of a group ascend.

    Args:
        samples: Shape (n,): numbers of samples.
        hashes: Shape (n,): a hash of each sample's content; 0 for samples without it.
        read: Returns the parts of a sample to compare.
    """
    # Sort by hash, so that equal hashes are neighbours.
    samples, hashes = samples[hashes != 0], hashes[hashes != 0]
    order = np.argsort(hashes, kind="stable")
    runs = np.split(samples[order], np.flatnonzero(np.diff(hashes[order])) + 1)
    # Compare the bytes of samples with one hash, which has 64 bits only.
    groups = [group for run in runs if len(run) > 1 for group in _equal(run.tolist(), read)]
    return sorted(groups, key=lambda group: (-len(group), group[0]))


def _equal(samples: list[int], read: Callable[[int], Mapping[str, object]]) -> list[list[int]]:
    by_content: dict[bytes, list[int]] = defaultdict(list)
    for sample in samples:
        # A long digest takes the place of the bytes, which may not fit into memory.
        digest = hashlib.sha256()
        for name, value in read(sample).items():
            data = value if isinstance(value, bytes) else repr(value).encode()
            digest.update(f"{name}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
        by_content[digest.digest()].append(sample)
    return [group for group in by_content.values() if len(group) > 1]


def shared_duplicates(datasets: Sequence[OpenDataset], reports: Sequence[StatsReport]) -> list[list[str]] | None:
    """Return the groups of samples with the same content that are in several datasets; None if none were searched.

    Args:
        datasets: The datasets.
        reports: The statistics of each dataset.
    """
    if len(reports) < 2 or reports[0].duplicates is None:
        return None
    numbered = NumberedDatasets({each.name: each.folder for each in datasets})

    def read(row: int) -> Mapping[str, object]:
        position, sample = numbered.sample(row)
        return numbered.folders[position].read_parts(sample, reports[position].hashed_parts or None)

    samples = numbered.numbers(report.hashed_samples for report in reports)
    groups = _equal_groups(samples, np.concatenate([report.hashes for report in reports]), read)
    several = (group for group in groups if len({numbered.sample(row)[0] for row in group}) > 1)
    return [[*map(numbered.full_key, group)] for group in several]
