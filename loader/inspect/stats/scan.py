"""Read values of samples in worker processes: for statistics, and for conditions on values that are no columns."""

from __future__ import annotations

import hashlib
import importlib
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...dataset.dataset import Dataset
from ...dataset.opening import dataset_at
from ...dataset.tar import tar_index
from ...engine.run import Engine
from ...errors import ConfigError, EnergonError, SampleError, TrustError, required_package
from ...escaped_log import get_logger
from ...format.columns.column import DATE, ComparedValues, date_and_text
from ...format.dataset_ref import DatasetRef
from ...format.documents.value_name import ValueName
from ...parts.kinds import kind_of_name
from ...parts.large_parts import CHECKED_JSON_BYTES, LargePartError
from ...storage import AscendingFile, ReadableFile
from .values import PartValues, SampleValues, Tokenizer, Value, ValueRequest, content_values, part_values, size_name

_log = get_logger(__name__)
_SAMPLES_AT_ONCE = 2000  # of a task: progress is shown after each
_MAX_BROKEN = 20  # that are named
_HUGE = 1 << 1023  # nearly the largest of 64-bit floats
_DENSE_READ = 8 << 20  # bytes of a request, if samples lie close together
_SPARSE_READ = 64 << 10  # bytes of a request, if samples lie far apart
_MAX_DENSE = 1 << 20  # bytes from one sample to the next


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A part that is not what its name says."""

    sample: str
    part: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """Samples of one shard to read."""

    ref: DatasetRef  # the dataset; with `trust_code`, the function that counts tokens may be imported
    samples: IntArray  # numbers of the samples, ascending
    index_uuid: str = ""  # a worker that lives on, such as one of a cluster, may have opened an earlier index
    parts: tuple[str, ...] | None = None  # only these parts; None for all
    # The parts by whose bytes duplicates are found; empty hashes all parts, None hashes nothing.
    hashed: tuple[str, ...] | None = None
    kept: tuple[ValueName, ...] = ()
    kept_only: bool = False
    tokenizer: str | None = None
    max_json_bytes: int | None = None  # larger JSON parts are not parsed; None for no limit

    def of_shards(self, folder: Dataset) -> Iterator[ScanTask]:
        """Yield tasks for samples of several shards, each with some samples of one."""
        # Cut the samples at the shards, and each piece into tasks.
        firsts = np.array([shard.first_sample for shard in folder.index.shards])
        ends = np.searchsorted(self.samples, [*firsts[1:], len(folder.index)])
        start = 0
        for end in ends.tolist():
            for first in range(start, end, _SAMPLES_AT_ONCE):
                yield replace(self, samples=self.samples[first : min(first + _SAMPLES_AT_ONCE, end)])
            start = end


@dataclass(slots=True, kw_only=True)
class ScanResult:
    """The values of some samples."""

    samples: int
    numbers: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)  # name → numbers
    texts: dict[str, Counter[str]] = field(default_factory=dict)  # name → text → count
    # Name, as it is printed → samples and values.
    kept: dict[str, tuple[list[int], list[Value]]] = field(default_factory=dict)
    # Hash of each sample, shape (samples,), 0 for those without such a part; empty without hashing.
    hashes: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    broken: list[Broken] = field(default_factory=list)  # the first broken parts
    broken_count: int = 0
    large: list[Broken] = field(default_factory=list)  # the first parts that are not parsed, because they are too large
    large_count: int = 0


def scan_samples(task: ScanTask) -> ScanResult:
    """Read the values of some samples."""
    # Open the shard.
    folder = _open_folder(task.ref, task.index_uuid)
    tokenizer = None if task.tokenizer is None else open_tokenizer(task.tokenizer, trust_code=task.ref.trust_code)
    result = ScanResult(samples=len(task.samples))
    numbers: dict[str, list[float]] = defaultdict(list)
    texts: dict[str, Counter[str]] = defaultdict(Counter)
    kept: dict[str, tuple[list[int], list[Value]]] = {str(name): ([], []) for name in task.kept}
    hashes: list[int] = []
    # Read the values of each sample.
    with closing(_Reader(folder, task, tokenizer)) as reader:
        for sample in task.samples.tolist():
            shown, named = reader.values(sample, result)
            for name, value in shown if not task.kept_only else ():
                if isinstance(value, str):
                    texts[name][value] += 1
                elif isinstance(value, date):
                    texts[name][f"{value:%Y-%m}"] += 1
                else:
                    numbers[name].append(value)
            for name, value in named:
                if name in kept:
                    kept[name][0].append(sample)
                    kept[name][1].append(value)
            if task.hashed is not None:
                hashes.append(reader.hash(sample))
    # Count NaN and infinities as texts.
    for name, some in numbers.items():
        floats = as_array(some)
        others = np.flatnonzero(~np.isfinite(floats)).tolist()
        if others:
            texts[name].update(str(some[position]) for position in others)
            floats = np.delete(floats, others)
        if len(floats):
            result.numbers[name] = floats
    result.texts = dict(texts)
    result.kept = kept
    result.hashes = np.array(hashes, np.uint64)
    return result


def as_array(numbers: Sequence[Any]) -> npt.NDArray[np.float64]:
    """Return numbers as floats; integers beyond their range are infinite."""
    try:
        return np.array(numbers, np.float64)
    except OverflowError:  # JSON has integers of any size
        floats = [integer if abs(integer) < _HUGE else math.inf if integer > 0 else -math.inf for integer in numbers]
        return np.array(floats, np.float64)


@lru_cache(maxsize=4)
def _open_folder(ref: DatasetRef, _index_uuid: str) -> Dataset:
    return dataset_at(ref)


class _Reader:
    def __init__(self, folder: Dataset, task: ScanTask, tokenizer: Tokenizer | None) -> None:
        self._folder = folder
        self._task = task
        self._file: ReadableFile | None = None
        # Group the wanted values by their parts, so that each part is read once.
        of_parts: dict[str, list[ValueName]] = {}
        for name in task.kept:
            of_parts.setdefault(name.part, []).append(name)
        self._request = ValueRequest(shows_all=not task.kept_only, kept=of_parts, tokenizer=tokenizer)
        # Open the shard; in an object store, read ahead by the distance between samples.
        if folder.format == "webdataset" and len(task.samples):
            first, last = (tar_index(folder).parts(int(task.samples[position])) for position in (0, -1))
            self._file = folder.open_shard(folder.index.shard_of(int(task.samples[0])))
            if folder.storage.checks_versions and first and last:  # each read would be a request
                apart = (last[-1].offset + last[-1].size_bytes - first[0].offset) // len(task.samples)
                self._file = AscendingFile(self._file, _DENSE_READ if apart < _MAX_DENSE else _SPARSE_READ)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._folder.close()

    def values(self, sample: int, result: ScanResult) -> PartValues:
        """Return the values of a sample; note its broken parts."""
        shown: SampleValues = []
        kept: SampleValues = []
        wanted = self._task.parts if not self._task.kept_only else self._request.kept
        # Parts of records are values that are read together.
        if self._file is None:
            limit = self._task.max_json_bytes
            for name, value in self._folder.read_parts(sample, wanted, max_json_bytes=limit).items():
                try:
                    of_part = content_values(name, value, self._request)
                except (ValueError, SampleError) as error:
                    self._note_broken(error, sample, name, result)
                else:
                    shown += of_part[0]
                    kept += of_part[1]
            return shown, kept
        # Parts of tars have sizes, too, and only the headers of media are read.
        total = 0
        for part in tar_index(self._folder).parts(sample):
            total += part.size_bytes
            if wanted is None or part.name in wanted:
                size = (size_name(part.name), part.size_bytes)
                shown.append(size)
                kept.append(size)
                try:
                    of_part = part_values(self._file, part, self._request, self._task.max_json_bytes)
                except (ValueError, SampleError) as error:
                    self._note_broken(error, sample, part.name, result)
                else:
                    shown += of_part[0]
                    kept += of_part[1]
        shown.append(("bytes", total))
        kept.append(("bytes", total))
        return shown, kept

    def _note_broken(self, error: ValueError | SampleError, sample: int, name: str, result: ScanResult) -> None:
        if isinstance(error, EnergonError) and not isinstance(error, SampleError):
            raise error
        # Count all, and name the first ones.
        is_large = isinstance(error, LargePartError)
        result.large_count += is_large
        result.broken_count += not is_large
        noted = result.large if is_large else result.broken
        if len(noted) < _MAX_BROKEN:
            reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            noted.append(Broken(sample=self._folder.index.full_key(sample), part=name, reason=reason))

    def hash(self, sample: int) -> int:
        """Return 64 bits of a hash of the content of a sample; 0 if it has none of the parts."""
        # Names and lengths are part of the hash, so that bytes cannot move from one part to the next.
        digest = hashlib.blake2b(digest_size=8)
        parts = self._hashed_parts(sample)
        for name, data in parts.items():
            digest.update(f"{name}\0{len(data)}\0".encode("utf-8", "surrogateescape"))
            digest.update(data)
        return int.from_bytes(digest.digest(), "little") or 1 if parts else 0

    def _hashed_parts(self, sample: int) -> Mapping[str, bytes]:
        wanted = self._task.hashed
        if self._file is None:
            values = self._folder.read_parts(sample, wanted or None)
            return {name: value if isinstance(value, bytes) else repr(value).encode() for name, value in values.items()}
        parts = [part for part in tar_index(self._folder).parts(sample) if not wanted or part.name in wanted]
        file: Any = self._file
        return {part.name: file.read_at(part.offset, part.size_bytes) for part in parts}


def media_parts(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts with pictures, audio or video.

    >>> media_parts(("json", "jpg", "txt", "mp4"))
    ('jpg', 'mp4')
    """
    return tuple(name for name in names if kind_of_name(name) in ("image", "audio", "video"))


@lru_cache(maxsize=1)
def open_tokenizer(name: str, *, trust_code: bool) -> Tokenizer:
    """Return a function that counts tokens.

    Args:
        name: A JSON file of the package tokenizers, or ``module:callable``, which takes a text and returns its tokens
            or their number.

    Raises:
        TrustError: It is a callable, and the caller does not trust code.
    """
    if name.endswith(".json"):
        return _of_file(name)
    # A callable is code, which runs only if the caller trusts it.
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ConfigError(
            f"expected a .json file of tokenizers, or module:callable, found {name!r}", hint="check --tokenizer"
        )
    if not trust_code:
        raise TrustError(f"the tokenizer {name} is code, which is not run", hint="pass --trust-code if you trust it")
    try:
        function: Callable[[str], Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"there is no tokenizer {name}: {error}", hint="check the module's name") from error

    def count(text: str) -> int:
        tokens = function(text)
        return tokens if isinstance(tokens, int) else len(tokens)

    return count


def _of_file(path: str) -> Tokenizer:
    with required_package(
        "reading a tokenizer's file needs the package tokenizers, which is not installed",
        at=path,
        hint="run: pip install 'energon-toolkit[tokens]'",
    ):
        from tokenizers import Tokenizer as FastTokenizer
    try:
        tokenizer = FastTokenizer.from_file(path)
    except Exception as error:  # its bindings raise the base class
        raise ConfigError(f"cannot read this tokenizer: {error}", at=path, hint="check the file") from error
    return lambda text: len(tokenizer.encode(text).ids)


# Compute values that are no columns, for conditions, orders and groups.


_MAX_TIMED = 64  # samples that an estimate reads
_MAX_TIMED_S = 1.0  # of an estimate, which a user waits for


class ValueEstimate(NamedTuple):
    """About how long values take, by some samples from all over the dataset."""

    seconds: float
    samples: int
    existing: tuple[ValueName, ...]


def estimate_values(folder: Dataset, names: Sequence[ValueName], samples: IntArray, *, workers: int) -> ValueEstimate:
    """Return about how long :func:`compute_values` takes, and which of the values exist."""
    if not len(samples):
        return ValueEstimate(0.0, 0, ())
    # Time some samples from all over the dataset.
    tasks = list(_task(folder, names, _some(samples)).of_shards(folder))
    scan_samples(tasks[0])  # the first one loads packages
    timed, existing, started = 0, set[str](), time.monotonic()
    for task in tasks:
        result = scan_samples(task)
        existing |= {name for name, (_, values) in result.kept.items() if values}
        timed += result.samples
        if time.monotonic() - started > _MAX_TIMED_S:
            break
    # Workers share the rest.
    seconds = (time.monotonic() - started) / timed * len(samples) / workers
    return ValueEstimate(seconds, timed, tuple(name for name in names if str(name) in existing))


def value_names(folder: Dataset, samples: IntArray) -> list[str]:
    """Return the names of the values that some of the samples have, sorted."""
    tasks = replace(_task(folder, (), _some(samples)), kept_only=False).of_shards(folder)
    return sorted(
        {name for task in tasks for result in [scan_samples(task)] for name in (*result.numbers, *result.texts)}
    )


def _some(samples: IntArray) -> IntArray:
    return samples[np.unique(np.linspace(0, len(samples) - 1, _MAX_TIMED).astype(np.int64))]


def compute_values(
    folder: Dataset,
    names: Sequence[ValueName],
    samples: IntArray,
    *,
    workers: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[ValueName, ComparedValues]:
    """Read values of samples; broken parts have none, and a log names those that are too large to be parsed.

    Args:
        samples: Numbers of the samples, ascending.

    Returns:
        Name → values of shape (samples,).
    """
    kept: dict[str, dict[int, Value]] = {str(name): {} for name in names}
    done = large = 0
    tasks = list(_task(folder, names, samples).of_shards(folder))
    for _, result in Engine(workers=workers).run(scan_samples, tasks):
        for name, (numbers, values) in result.kept.items():
            kept[name].update(zip(numbers, values, strict=True))
        done, large = done + result.samples, large + result.large_count
        if on_progress is not None:
            on_progress(done, len(samples))
    if large:
        _log.warning("%d JSON parts of more than %d bytes are not parsed, so have no values", large, CHECKED_JSON_BYTES)
    return {name: _as_values(kept[str(name)], samples) for name in names}


def _task(folder: Dataset, names: Sequence[ValueName], samples: IntArray) -> ScanTask:
    return ScanTask(
        ref=folder.ref, samples=samples, kept=tuple(names), kept_only=True, max_json_bytes=CHECKED_JSON_BYTES
    )


def _as_values(values: dict[int, Value], samples: IntArray) -> ComparedValues:
    numbers = samples.tolist()
    known = np.array([sample in values for sample in numbers], np.bool_)
    if values and all(isinstance(value, date) for value in values.values()):
        dates = np.array([values.get(sample, "NaT") for sample in numbers], DATE)
        return ComparedValues(dates, known, with_text=date_and_text)
    # A value that is a text in some samples is compared as a text in all.
    if any(isinstance(value, str | date) for value in values.values()):
        texts = sorted({str(value) for value in values.values()})
        codes = {text: code for code, text in enumerate(texts)}
        positions = [codes[str(values[sample])] if sample in values else -1 for sample in numbers]
        return ComparedValues(np.array(positions, np.int64), known, tuple(texts))
    return ComparedValues(as_array([values.get(sample, 0) for sample in numbers]), known)
