"""Values that a user's function returns: the bytes of one task's values, and the type that holds all values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..errors import SampleError
from ..format.columns.column import DATE
from ..format.index.npy_column import MAX_VECTOR

_STORED = {"": "|b1", "bool": "|b1", "int": "<i8", "float": "<f8", "date": DATE.str}
"""Types of values of one kind in the result of a task; vectors have their own."""

_VECTOR_TYPES = ("<f2", "<f4", "|u1", "<u4")
"""Types of the elements of vectors: embeddings, and the bits or the hashes of fingerprints."""

_ORDER = ("", "bool", "int", "float")
"""Kinds of numbers, from the narrowest; a wider one holds the values of those before it."""

_MIN_INT, _MAX_INT = -(2**63), 2**63 - 1

_MAX_EXACT = 2**53  # integers up to this are floats without loss


class ValueKind(msgspec.Struct, frozen=True, kw_only=True):
    """The kind of the values of some samples.

    Attributes:
        name: ``"bool"``, ``"int"``, ``"float"``, ``"date"``, ``"text"`` or ``"vector"``; empty without any value.
        dtype: Type of the elements of vectors, as numpy writes it.
        length: Elements of each vector.
        first: Number of the first sample with a value, for messages.
        low: Least integer.
        high: Greatest integer.
    """

    name: str = ""
    dtype: str = ""
    length: int = 0
    first: int = 0
    low: int = 0
    high: int = 0

    def join(self, other: ValueKind, *, column: str, at: str, key: Callable[[int], str]) -> ValueKind:
        """Return the narrowest kind that holds the values of both; ``other`` follows in the order of samples.

        Args:
            column: Name of the column.
            at: Path of the dataset.
            key: Returns the key of a sample, for the message.

        Raises:
            SampleError: No column holds both.
        """
        if not self.name or not other.name:
            return other if other.name else self
        low, high = min(self.low, other.low), max(self.high, other.high)
        is_exact = max(-low, high) <= _MAX_EXACT or "float" not in (self.name, other.name)
        if self.name in _ORDER and other.name in _ORDER and is_exact:
            name = _ORDER[max(_ORDER.index(self.name), _ORDER.index(other.name))]
            return msgspec.structs.replace(self, name=name, low=low, high=high)
        if (self.name, self.length) == (other.name, other.length):
            dtype = np.result_type(self.dtype, other.dtype).str if self.name == "vector" else ""
            if dtype in ("", *_VECTOR_TYPES):
                return msgspec.structs.replace(self, dtype=dtype)
        raise SampleError(
            f"column {column!r} would mix {self.describe()} and {other.describe()}",
            at=f"{at}: samples {key(self.first)} and {key(other.first)}",
            hint="return values of one kind, or raise SkipSample for samples that have none",
        )

    def describe(self) -> str:
        if self.name == "vector":
            return f"vectors of {self.length} {np.dtype(self.dtype).name}"
        return {"bool": "booleans", "int": "integers"}.get(self.name, f"{self.name}s" if self.name else "nothing")


class ColumnPiece(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one column for the samples of one task.

    Attributes:
        kind: Their kind.
        data: Numbers and vectors as little-endian bytes, one row for each sample; texts in UTF-8, one after another.
        lengths: Bytes of each text, as uint32.
        valid: One byte for each sample: 1 if it has a value.
    """

    kind: ValueKind
    data: bytes
    lengths: bytes = b""
    valid: bytes

    def known(self) -> npt.NDArray[np.bool_]:
        """Return True for the samples that have a value."""
        return np.frombuffer(self.valid, np.bool_)

    def texts(self) -> list[str]:
        """Return the texts; an empty one for a sample without."""
        ends = np.cumsum(np.frombuffer(self.lengths, "<u4").astype(np.int64)).tolist()
        return [
            self.data[start:end].decode("utf-8", "surrogatepass") for start, end in zip([0, *ends], ends, strict=False)
        ]

    def numbers(self, dtype: np.dtype[Any], length: int = 0) -> npt.NDArray[Any]:
        """Return the values, of shape (n,), or (n, length) of vectors, in another type."""
        samples = len(self.valid)
        if not self.kind.name:
            empty: Any = {"f": np.nan, "M": np.datetime64("NaT")}.get(dtype.kind, 0)
            return np.full((samples, length) if length else samples, empty, dtype)
        values = np.frombuffer(self.data, self.kind.dtype or _STORED[self.kind.name]).astype(dtype)
        if length:
            values = values.reshape(samples, length)
        if dtype.kind == "f":
            values[~self.known()] = np.nan
        return values


class UnfitValueError(SampleError):
    """No column holds a value, whatever the values of other samples are."""


def plain_values(values: list[Any]) -> Iterator[tuple[int, Exception]]:
    """Replace values by booleans, integers, floats, texts, dates and arrays of one dimension; None stays.

    Yields:
        The row of each value that no column holds, which becomes None, and the error.
    """
    types = {*map(type, values)}
    if types <= {str, float, bool, int, type(None)} and not any(
        type(value) is int and not _MIN_INT <= value <= _MAX_INT for value in values if int in types
    ):
        return
    for row, value in enumerate(values):
        if value is not None:
            try:
                values[row] = _plain(value)
            except Exception as error:  # noqa: BLE001 - also of numpy and torch, for numbers that they cannot hold
                values[row] = None
                yield row, error


def piece_of(values: Sequence[Any], first: int, *, column: str, at: str, key: Callable[[int], str]) -> ColumnPiece:
    """Return plain values of consecutive samples as the piece of a column.

    Args:
        values: Their values; None for a sample without one.
        first: Number of the first sample.
        column: Name of the column.
        at: Path of the dataset.
        key: Returns the key of a sample, for messages.

    Raises:
        SampleError: No column holds the values of two samples.
    """
    # The kind of most tasks follows from the types alone.
    kind = _kind_of_all(values, first)
    if kind is None:
        kind = ValueKind()
        for row, value in enumerate(values):
            if value is not None:
                of_value = _kind_of_all([value], first + row) or _kind_of_vector(value, first + row)
                kind = kind.join(of_value, column=column, at=at, key=key)
    # Store the values as bytes.
    valid = np.array([value is not None for value in values], np.bool_).tobytes()
    if kind.name == "text":
        texts = [(value or "").encode("utf-8", "surrogatepass") for value in values]
        lengths = np.array([len(text) for text in texts], "<u4")
        return ColumnPiece(kind=kind, data=b"".join(texts), lengths=lengths.tobytes(), valid=valid)
    if kind.name == "vector":
        vectors = np.zeros((len(values), kind.length), kind.dtype)
        for row, value in enumerate(values):
            if value is not None:
                vectors[row] = value
        return ColumnPiece(kind=kind, data=vectors.tobytes(), valid=valid)
    gap = np.datetime64("NaT") if kind.name == "date" else 0
    numbers = np.array([gap if value is None else value for value in values], _STORED[kind.name])
    return ColumnPiece(kind=kind, data=numbers.tobytes(), valid=valid)


def _plain(value: Any) -> Any:
    """Return a value as bool, int, float, str, a date in UTC, or an array of one dimension."""
    if isinstance(value, bool | int | float | str):
        return _checked(value)
    if isinstance(value, date | np.datetime64):
        return plain_date(value)
    value = without_torch(value)
    if isinstance(value, list | tuple) and value and all(isinstance(each, int | float) for each in value):
        value = np.array(value, np.float32)
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return _checked(value.item())
    if isinstance(value, np.ndarray) and value.ndim == 1 and 1 <= len(value) <= MAX_VECTOR:
        dtype = value.dtype.newbyteorder("<").str
        if dtype in _VECTOR_TYPES:
            return value
        if value.dtype.kind == "f":
            return value.astype(np.float32)
    raise _refused(value)


def without_torch(value: Any) -> Any:
    """Return a tensor of torch, on any device, as an array; other values stay."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()


def _checked(value: Any) -> Any:
    if isinstance(value, int) and not _MIN_INT <= value <= _MAX_INT:
        raise _refused(value)
    if isinstance(value, bool | int | float | str):
        return value
    raise _refused(value)


def plain_date(value: date | np.datetime64) -> np.datetime64 | None:
    """Return a date, or a date with the time of day, as microseconds in UTC; None for NaT.

    >>> plain_date(datetime.fromisoformat("2024-03-05T12:00+02:00"))
    np.datetime64('2024-03-05T10:00:00.000000')
    """
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    plain = np.datetime64(value).astype(DATE)
    return None if np.isnat(plain) else plain


def _refused(value: Any) -> UnfitValueError:
    shape = f" of {value.dtype} and shape {value.shape}" if isinstance(value, np.ndarray) else ""
    return UnfitValueError(
        f"a value of {type(value).__name__}{shape} cannot be in a column; return a number of at most 64 bits, a text, a"
        " boolean, a date, or"
        f" a vector of one dimension with 1 to {MAX_VECTOR:,} numbers (float16, float32, uint8, uint32)"
    )


def _kind_of_all(values: Sequence[Any], first: int) -> ValueKind | None:
    """Return the kind of values that are all numbers, or all texts; None if they have to be compared one by one."""
    types = {*map(type, values)} - {type(None)}
    if not types:
        return ValueKind()
    first += next(row for row, value in enumerate(values) if value is not None)
    if types == {str}:
        return ValueKind(name="text", first=first)
    if types == {float}:
        return ValueKind(name="float", first=first)
    if types == {np.datetime64}:
        return ValueKind(name="date", first=first)
    if types <= {bool, int}:
        integers = [value for value in values if value is not None]
        name = "int" if int in types else "bool"
        return ValueKind(name=name, first=first, low=int(min(integers)), high=int(max(integers)))
    return None


def _kind_of_vector(value: npt.NDArray[Any], sample: int) -> ValueKind:
    return ValueKind(name="vector", dtype=value.dtype.newbyteorder("<").str, length=len(value), first=sample)


def number_type(kind: ValueKind) -> np.dtype[Any]:
    """Return the type of a column of numbers: of integers, the smallest that holds all."""
    if kind.name == "int":
        types = (np.int16, np.int32, np.int64)
        return np.dtype(next(t for t in types if np.iinfo(t).min <= kind.low and kind.high <= np.iinfo(t).max))
    return np.dtype(kind.dtype or _STORED[kind.name])
