"""Summaries of the values of some samples: numbers as distributions, names and texts as bytes; small, and stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec
import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from .distribution import Distribution
from .scan import Broken, ScanTask, as_array, scan_samples
from .values import Value


class KeptValues(msgspec.Struct, frozen=True):
    """The values of one name that become a column, as little-endian bytes.

    Attributes:
        samples: Numbers of the samples with numbers, int64.
        numbers: Their values, float64.
        text_samples: Numbers of the samples with texts, int64.
        texts: Their values.
        are_dates: The texts are dates.
    """

    samples: bytes
    numbers: bytes
    text_samples: bytes
    texts: list[bytes]
    are_dates: bool = False

    @classmethod
    def of(cls, samples: Sequence[int], values: Sequence[Value]) -> KeptValues:
        """Return the values of samples."""
        pairs = [*zip(samples, values, strict=True)]
        numbers = [(sample, value) for sample, value in pairs if isinstance(value, int | float)]
        texts = [(sample, str(value)) for sample, value in pairs if not isinstance(value, int | float)]
        return cls(
            samples=np.array([sample for sample, _ in numbers], "<i8").tobytes(),
            numbers=as_array([value for _, value in numbers]).astype("<f8").tobytes(),
            text_samples=np.array([sample for sample, _ in texts], "<i8").tobytes(),
            texts=[_packed(text) for _, text in texts],
            are_dates=bool(values) and all(isinstance(value, date) for value in values),
        )


class SampleSummary(msgspec.Struct, frozen=True):
    """The values of the samples of one task.

    Attributes:
        samples: Their number.
        numbers: Name → numbers.
        texts: Name → text → count.
        kept: Name, as it is printed → values.
        hashes: Hash of each sample, as little-endian uint64; empty without hashing.
        broken: The first broken parts: sample, part and reason.
        large: The first parts that were not parsed.
    """

    samples: int
    numbers: dict[bytes, Distribution]
    texts: dict[bytes, dict[bytes, int]]
    kept: dict[bytes, KeptValues]
    hashes: bytes
    broken: list[tuple[bytes, bytes, bytes]]
    broken_count: int
    large: list[tuple[bytes, bytes, bytes]]
    large_count: int


def summarize_samples(task: ScanTask) -> SampleSummary:
    """Read the values of some samples, and summarize them; runs in workers."""
    result = scan_samples(task)
    return SampleSummary(
        samples=result.samples,
        numbers={_packed(name): Distribution.of(values) for name, values in result.numbers.items()},
        texts={
            _packed(name): {_packed(text): count for text, count in counts.items()}
            for name, counts in result.texts.items()
        },
        kept={_packed(name): KeptValues.of(*values) for name, values in result.kept.items()},
        hashes=result.hashes.astype("<u8").tobytes(),
        broken=[_packed_part(each) for each in result.broken],
        broken_count=result.broken_count,
        large=[_packed_part(each) for each in result.large],
        large_count=result.large_count,
    )


class ColumnValues:
    """The values of one name in all samples, for a column."""

    def __init__(self) -> None:
        self._pieces: list[KeptValues] = []

    def add(self, piece: KeptValues) -> None:
        """Add the values of a task."""
        if piece.samples or piece.text_samples:
            self._pieces.append(piece)

    def __len__(self) -> int:
        """Return the number of samples with values."""
        return sum(len(piece.samples) // 8 + len(piece.texts) for piece in self._pieces)

    def numbers(self) -> tuple[IntArray, npt.NDArray[np.float64]]:
        """Return the numbers of the samples with numbers, and the values."""
        samples = np.frombuffer(b"".join(piece.samples for piece in self._pieces), "<i8").astype(np.int64)
        return samples, np.frombuffer(b"".join(piece.numbers for piece in self._pieces), "<f8").astype(np.float64)

    @property
    def are_dates(self) -> bool:
        """True if all values are dates."""
        return bool(self._pieces) and all(piece.are_dates for piece in self._pieces)

    def texts(self) -> tuple[IntArray, list[str]]:
        """Return the numbers of the samples with texts, and the texts."""
        samples = np.frombuffer(b"".join(piece.text_samples for piece in self._pieces), "<i8").astype(np.int64)
        return samples, [unpacked(text) for piece in self._pieces for text in piece.texts]


def _packed(text: str) -> bytes:
    # Names, and texts of JSON, may have lone surrogates.
    return text.encode("utf-8", "surrogatepass")


def unpacked(data: bytes) -> str:
    """Return a name or text of a summary."""
    return data.decode("utf-8", "surrogatepass")


def unpacked_part(part: tuple[bytes, bytes, bytes]) -> Broken:
    """Return a broken part of a summary."""
    sample, name, reason = map(unpacked, part)
    return Broken(sample=sample, part=name, reason=reason)


def _packed_part(part: Broken) -> tuple[bytes, bytes, bytes]:
    return _packed(part.sample), _packed(part.part), _packed(part.reason)
