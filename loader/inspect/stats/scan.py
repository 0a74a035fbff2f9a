"""Read the values of some samples, in a worker process."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...errors import EnergonError, SampleError
from ...format.dataset_folder import DatasetFolder, open_fresh_shard
from ...format.documents.part_kinds import part_kind
from ...format.index.dataset_index import PartLocation
from ...storage import ReadableFile
from .tokens import open_tokenizer
from .values import SampleValues, Tokenizer, Value, content_values, part_values

__all__ = ["Broken", "ScanResult", "ScanTask", "first_media_part", "scan_samples"]

_MAX_BROKEN = 20  # that are named


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A part that is not what its name says."""

    sample: str
    part: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """Samples of one shard to read.

    Attributes:
        path: The dataset.
        meta_folder: Folder to use instead of ``.nv-meta``.
        samples: Numbers of the samples, ascending.
        parts: Only these parts; None for all.
        hashed: The part by whose bytes duplicates are found; ``""`` hashes all parts, None hashes nothing.
        kept: Names of values to return for each sample.
        reads_values: Read the values; else only hash.
        tokenizer: A file or function that counts tokens.
        trust_code: The function may be imported.
    """

    path: str
    meta_folder: str | None
    samples: IntArray
    parts: tuple[str, ...] | None = None
    hashed: str | None = None
    kept: frozenset[str] = frozenset()
    reads_values: bool = True
    tokenizer: str | None = None
    trust_code: bool = False


@dataclass(slots=True, kw_only=True)
class ScanResult:
    """The values of some samples.

    Attributes:
        samples: Number of samples.
        numbers: Name → numbers.
        texts: Name → text → count.
        kept: Name → samples and values.
        hashes: Hash of each sample, shape (samples,); empty without hashing.
        broken: The first broken parts.
        broken_count: Number of all of them.
        bytes_read: Bytes that were read, for shares of the dataset.
    """

    samples: int
    numbers: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    texts: dict[str, Counter[str]] = field(default_factory=dict)
    kept: dict[str, tuple[list[int], list[Value]]] = field(default_factory=dict)
    hashes: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    broken: list[Broken] = field(default_factory=list)
    broken_count: int = 0


def scan_samples(task: ScanTask) -> ScanResult:
    """Read the values of some samples.

    Raises:
        ConfigError: A package that reads a part is not installed.
        FormatError: The shard has changed, or its index is damaged.
        StorageError: The shard cannot be read.
    """
    folder = _open_folder(task.path, task.meta_folder)
    tokenizer = None if task.tokenizer is None else _open_tokenizer(task.tokenizer, task.trust_code)
    result = ScanResult(samples=len(task.samples))
    numbers: dict[str, list[float]] = defaultdict(list)
    texts: dict[str, Counter[str]] = defaultdict(Counter)
    kept: dict[str, tuple[list[int], list[Value]]] = {name: ([], []) for name in task.kept}
    hashes: list[int] = []
    reader = _Reader(folder, task, tokenizer)
    try:
        for sample in task.samples.tolist():
            for name, value in reader.values(sample, result) if task.reads_values else ():
                if isinstance(value, str):
                    texts[name][value] += 1
                else:
                    numbers[name].append(value)
                if name in kept:
                    kept[name][0].append(sample)
                    kept[name][1].append(value)
            if task.hashed is not None:
                hashes.append(reader.hash(sample))
    finally:
        reader.close()
    result.numbers = {name: np.array(some, np.float64) for name, some in numbers.items()}
    result.texts = dict(texts)
    result.kept = kept
    result.hashes = np.array(hashes, np.uint64)
    return result


@lru_cache(maxsize=4)
def _open_folder(path: str, meta_folder: str | None) -> DatasetFolder:
    return DatasetFolder(path, meta_folder=meta_folder)


@lru_cache(maxsize=1)
def _open_tokenizer(name: str, trust_code: bool) -> Tokenizer:
    return open_tokenizer(name, trust_code=trust_code)


class _Reader:
    """Reads parts of samples of one shard."""

    def __init__(self, folder: DatasetFolder, task: ScanTask, tokenizer: Tokenizer | None) -> None:
        self._folder = folder
        self._task = task
        self._tokenizer = tokenizer
        self._file: ReadableFile | None = None
        if folder.records is None and len(task.samples):
            shard = folder.index.shard_of(int(task.samples[0]))
            self._file = open_fresh_shard(folder.storage, folder.tar_index, shard)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._folder.close()

    def values(self, sample: int, result: ScanResult) -> SampleValues:
        """Yield the values of a sample; note its broken parts."""
        if self._file is None:
            parts = self._folder.read_parts(sample, self._task.parts)
            for name, value in parts.items():
                yield from self._checked(content_values(name, value, self._tokenizer), sample, name, result)
            return
        total = 0
        for part in self._parts(sample):
            total += part.size_bytes
            if self._task.parts is None or part.name in self._task.parts:
                yield f"{part.name}.bytes", part.size_bytes
                found = part_values(self._file, part.name, part.offset, part.size_bytes, self._tokenizer)
                yield from self._checked(found, sample, part.name, result)
        yield "bytes", total

    def _checked(self, found: SampleValues, sample: int, name: str, result: ScanResult) -> SampleValues:
        try:
            yield from found
        except (ValueError, SampleError) as error:
            if isinstance(error, EnergonError) and not isinstance(error, SampleError):
                raise
            result.broken_count += 1
            if len(result.broken) < _MAX_BROKEN:
                reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
                result.broken.append(Broken(sample=self._folder.index.full_key(sample), part=name, reason=reason))

    def _parts(self, sample: int) -> list[PartLocation]:
        return self._folder.tar_index.parts(sample)

    def hash(self, sample: int) -> int:
        """Return 64 bits of a hash of the content of a sample."""
        digest = hashlib.blake2b(digest_size=8)
        for name, data in self._hashed_parts(sample).items():
            digest.update(f"{name}\0{len(data)}\0".encode("utf-8", "surrogateescape"))
            digest.update(data)
        return int.from_bytes(digest.digest(), "little")

    def _hashed_parts(self, sample: int) -> Mapping[str, bytes]:
        wanted = self._task.hashed
        if self._file is None:
            values = self._folder.read_parts(sample, None if not wanted else [wanted])
            return {name: value if isinstance(value, bytes) else repr(value).encode() for name, value in values.items()}
        parts = [part for part in self._parts(sample) if not wanted or part.name == wanted]
        file: Any = self._file
        return {part.name: file.read_at(part.offset, part.size_bytes) for part in parts}


def first_media_part(names: tuple[str, ...]) -> str:
    """Return the first part with pictures, audio or video; an empty text if there is none.

    >>> first_media_part(("json", "jpg", "txt"))
    'jpg'
    """
    return next((name for name in names if part_kind(name) in ("image", "audio", "video")), "")
