"""Kinds of columns: how values are stored, which samples lack one, and how values are compared and shown.

A new kind is a class here. Functions of ``energon map`` return its values as :mod:`loader.mapping.values` says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...errors import ConfigError, FormatError
from .column_record import ColumnRecord

if TYPE_CHECKING:
    import pyarrow as pa

STORED = re.compile(rb"[<|](?:[iu][1248]|f[248]|b1|M8\[us\])")
"""Types of the values in files: integers, floats, booleans and dates."""
DATE = np.dtype("<M8[us]")
_VECTOR_TYPES = ("float16", "float32", "uint8", "uint32")
_ROWS_AT_ONCE = 1 << 20
_TEXTS_AT_ONCE = 1 << 16
_BYTES_AT_ONCE = 1 << 26

Rows = slice | npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class ComparedValues:
    """A value for each of some samples, in a form that conditions, orders and groups compare.

    Attributes:
        values: Numbers, dates, or positions in ``categories``, shape (n,); of vectors no elements, shape (n, 0).
        known: True for samples that have a value; shape (n,).
        categories: The texts of the positions; None for others.
        with_text: Returns such values, and a text of a condition, in a form in which they compare; None if values of
            this kind do not compare with texts, or are texts. It raises a ``ValueError`` for other texts.
    """

    values: npt.NDArray[Any]
    known: npt.NDArray[np.bool_]
    categories: tuple[str, ...] | None = None
    with_text: Callable[[npt.NDArray[Any], str], tuple[npt.NDArray[Any], Any]] | None = None

    def texts(self) -> list[str] | None:
        """Return the known values as the texts that statistics count: of dates the months; None for numbers."""
        values = self.values[self.known]
        if self.categories is not None:
            return [self.categories[code] for code in values.tolist()]
        return values.astype("M8[M]").astype(str).tolist() if values.dtype.kind == "M" else None


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A value for each sample of a dataset.

    Attributes:
        values: Array of shape (samples,), or (samples, length) of vectors; read-only and memory-mapped.
        valid: Shape (samples,): True for samples with a value; None without a mask.
        text_bytes: The texts of all samples, one after another.
        path: Path of the file of values, for messages.
        kind: What its values are called.
        rows_at_once: Number of samples whose values take little memory.
        is_number: Its values may be weights or sizes.
    """

    name: str
    record: ColumnRecord
    values: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_] | None = None
    text_bytes: memoryview | None = None
    path: str = ""
    kind: ClassVar[str] = "numbers"
    rows_at_once: ClassVar[int] = _ROWS_AT_ONCE
    is_number: ClassVar[bool] = True

    # ------------------------------------------------------------------------------------- which samples have one

    def is_known(self, rows: Rows = slice(None)) -> npt.NDArray[np.bool_]:
        """Return True for the samples that have a value."""
        values = self.values[rows]
        known = self._is_marked(rows)
        if values.dtype.kind == "f":
            known &= ~np.isnan(values)
        if self.record.missing is not None:
            known &= values != self.record.missing
        return known

    def _is_marked(self, rows: Rows) -> npt.NDArray[np.bool_]:
        # Bytes other than 0 and 1 are no booleans, which numpy does not check.
        if self.valid is not None:
            return np.not_equal(self.valid[rows].view(np.uint8), 0)
        return np.ones(len(self.values[rows]), np.bool_)

    @property
    def may_lack(self) -> bool:
        """True if a sample may have no value."""
        return self.valid is not None or self.record.missing is not None or self.values.dtype.kind == "f"

    def count_missing(self) -> int:
        """Return the number of samples that have no value."""
        if not self.may_lack:
            return 0
        blocks = (slice(start, start + _ROWS_AT_ONCE) for start in range(0, len(self.values), _ROWS_AT_ONCE))
        return sum(int((~self.is_known(block)).sum()) for block in blocks)

    # ------------------------------------------------------------------------------------------------ the values

    def value(self, sample: int) -> Any:
        """Return the value of a sample as a Python object, a vector as an array; None if it has none."""
        row = np.array([sample])
        return self._value(sample) if self.is_known(row)[0] else None

    def _value(self, sample: int) -> Any:
        return self.values[sample].item()

    def array(self, rows: Rows = slice(None)) -> npt.NDArray[Any]:
        """Return the values of some samples; without a copy for a slice of a column whose samples all have one.

        Samples without a value have NaN, NaT or None, or are masked.
        """
        values = self.values[rows]
        unknown = ~self.is_known(rows) if self.may_lack else np.zeros(0, np.bool_)
        if not unknown.any() or self._has_gaps(values[unknown]):
            return values
        mask = np.broadcast_to(unknown.reshape(-1, *[1] * (values.ndim - 1)), values.shape)
        return np.ma.MaskedArray(values, mask=mask, copy=False)

    def _has_gaps(self, values: npt.NDArray[Any]) -> bool:
        """Return True if values of samples that have none say so themselves."""
        return values.dtype.kind == "f" and bool(np.isnan(values.reshape(len(values), -1)[:, 0]).all())

    def compared(self, rows: IntArray) -> ComparedValues:
        """Return the values of some samples for conditions."""
        return ComparedValues(self.values[rows], self.is_known(rows))

    def arrow(self, rows: Rows = slice(None)) -> pa.Array:
        """Return the values of some samples for a table of pyarrow, which has to be installed."""
        import pyarrow as pa

        values, known = np.asarray(self.values)[rows], self.is_known(rows)
        return pa.array(values.astype(values.dtype.newbyteorder("=")), mask=None if known.all() else ~known)

    def describe(self) -> str:
        """Return what the values are, for messages.

        >>> NumberColumn("width", ColumnRecord(samples=1, shards=""), np.array([640])).describe()
        'numbers'
        """
        return self.kind

    # ------------------------------------------------------------------------------------------------ the files

    def fault(self) -> str | None:
        """Return how the files of the column contradict its record; None if they do not."""
        for rows in (self.values, self.values if self.valid is None else self.valid):
            if len(rows) != self.record.samples:
                return f"expected {self.record.samples:,} values, found {len(rows):,}"
        if self.valid is not None and self.valid.dtype != np.bool_:
            return f"expected booleans as its mask, found {self.valid.dtype}"
        if self.record.categories and self.values.dtype.kind not in "biu":
            return f"expected positions in the list of texts, found {self.values.dtype}"
        return self._fault()

    def _fault(self) -> str | None:
        return None

    def check(self, *, reads_values: bool = True) -> None:  # noqa: ARG002 - of columns with texts
        """Compare every value with the format, which opening a column does not.

        Args:
            reads_values: Decode the texts; else only their ends are compared.

        Raises:
            FormatError: A mask has other bytes than 0 and 1, or the texts are no texts.
        """
        for start in range(0, len(self.values), _TEXTS_AT_ONCE):
            if self.valid is not None and (self.valid[start : start + _TEXTS_AT_ONCE].view(np.uint8) > 1).any():
                raise self.damaged("its mask has other bytes than 0 and 1")

    def damaged(self, fault: str) -> FormatError:
        """Return the error about a file that is not as it was written."""
        return FormatError(
            f"column {self.name!r} is damaged or stale: {fault}",
            shard=self.path,
            hint=f"write the column again{f'; it was made by {self.record.made_by}' if self.record.made_by else ''}",
        )

    # ----------------------------------------------------------------------------------- columns of new datasets

    @property
    def traits(self) -> dict[str, Any]:
        """Properties in which columns agree that can become one column: word of a message → value."""
        record = self.record
        return {"the kind of values": self.kind, "the unit": record.unit, "the value of missing ones": record.missing}

    def stored(self, rows: IntArray, texts: tuple[str, ...] = ()) -> Any:  # noqa: ARG002 - of columns of categories
        """Return the values of some samples as :func:`.write_column_files` takes them.

        Args:
            texts: The categories of the new column, among them all of this one.
        """
        return self.values[rows]

    def stored_bytes(self, rows: IntArray) -> npt.NDArray[np.int64]:
        """Return the bytes that the value of each sample takes in memory, shape (n,)."""
        return np.full(len(rows), self.values[:0].itemsize * max(1, self.record.length), np.int64)

    def check_numbers(self, use: str, *, at: str) -> None:
        """Raise a ``ConfigError`` if the values are no numbers.

        Args:
            use: What the numbers are for, such as ``"a blend"``.
        """
        if not self.is_number:
            raise ConfigError(
                f"expected a column of numbers for {use}, found {self.kind} in column {self.name!r}",
                at=at,
                hint="name another column",
            )


class NumberColumn(Column):
    """Integers, floats or booleans."""

    __slots__ = ()


class MaskedColumn(Column):
    """Values that cannot say that they are missing: only a mask says which samples have one."""

    __slots__ = ()
    is_number = False

    @property
    def may_lack(self) -> bool:
        return self.valid is not None

    def is_known(self, rows: Rows = slice(None)) -> npt.NDArray[np.bool_]:
        return self._is_marked(rows)


class VectorColumn(MaskedColumn):
    """Vectors of one length, such as embeddings."""

    __slots__ = ()
    kind = "vectors"

    def _value(self, sample: int) -> Any:
        return self.values[sample]

    def compared(self, rows: IntArray) -> ComparedValues:
        return ComparedValues(np.empty((len(rows), 0)), self.is_known(rows))

    def arrow(self, rows: Rows = slice(None)) -> pa.Array:
        import pyarrow as pa

        values, known = np.asarray(self.values)[rows], self.is_known(rows)
        elements = pa.array(values.astype(values.dtype.newbyteorder("="), copy=False).reshape(-1))
        valid = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
        kind = pa.list_(elements.type, self.record.length)
        return pa.Array.from_buffers(kind, len(values), [valid], children=[elements])

    def describe(self) -> str:
        return f"vectors of {self.record.length} numbers"

    def _fault(self) -> str | None:
        types = ", ".join(_VECTOR_TYPES)
        return None if self.values.dtype in _VECTOR_TYPES else f"expected vectors of {types}, found {self.values.dtype}"

    @property
    def traits(self) -> dict[str, Any]:
        dtype = self.values.dtype
        return super().traits | {
            "the length of vectors": self.record.length,
            "the type of vectors": "float" if dtype.kind == "f" else dtype.name,  # of any precision
            "the metric": self.record.metric,
            "the model": self.record.model,
        }


class CategoryColumn(Column):
    """Texts that are positions in a list of all texts."""

    __slots__ = ()
    kind = "categories"

    def _is_listed(self, rows: Rows) -> npt.NDArray[np.bool_]:
        values = self.values[rows]
        return self.is_known(rows) & (values >= 0) & (values < len(self.record.categories))

    def _value(self, sample: int) -> Any:
        value = int(self.values[sample])
        return self.record.categories[value] if 0 <= value < len(self.record.categories) else None

    def array(self, rows: Rows = slice(None)) -> npt.NDArray[Any]:
        # The last entry is the value of samples without one, whose code is out of range.
        texts = np.array([*self.record.categories, None], dtype=object)
        return texts[np.where(self._is_listed(rows), self.values[rows], -1)]

    def compared(self, rows: IntArray) -> ComparedValues:
        return ComparedValues(self.values[rows], self.is_known(rows), self.record.categories)

    def arrow(self, rows: Rows = slice(None)) -> pa.Array:
        import pyarrow as pa

        places = pa.array(np.asarray(self.values)[rows].astype(np.int64), mask=~self._is_listed(rows))
        return pa.DictionaryArray.from_arrays(places, pa.array(self.record.categories)).cast(pa.string())

    def stored(self, rows: IntArray, texts: tuple[str, ...] = ()) -> npt.NDArray[Any]:
        values = self.values[rows]
        if self.record.categories == texts:
            return values
        position = {text: code for code, text in enumerate(texts)}
        table = np.array([position[text] for text in self.record.categories], np.int64)
        # Codes outside of the list, such as the one of a missing value, stay as they are.
        known = self._is_listed(rows)
        return np.where(known, table[np.where(known, values, 0)], values)


class TextColumn(MaskedColumn):
    """Texts of any length; an empty one is a value."""

    __slots__ = ()
    kind = "texts"
    rows_at_once = _TEXTS_AT_ONCE

    def _value(self, sample: int) -> Any:
        return self.array(np.array([sample]))[0]

    def array(self, rows: Rows = slice(None)) -> npt.NDArray[Any]:
        """Return the texts of some samples, None for those without."""
        if isinstance(rows, slice):
            rows = np.arange(len(self.values))[rows]
        texts, decoded = np.empty(len(rows), object), list[str | None]()
        try:
            for data, is_known in zip(self.stored(rows), self.is_known(rows).tolist(), strict=True):
                decoded.append(str(data, "utf-8", "surrogatepass") if is_known else None)
        except UnicodeDecodeError as error:
            raise self.damaged(f"the text of sample {rows[len(decoded)]} is not UTF-8") from error
        texts[:] = decoded
        return texts

    def compared(self, rows: IntArray) -> ComparedValues:
        return ComparedValues(*text_positions(self.array(rows).tolist()))

    def arrow(self, rows: Rows = slice(None)) -> pa.Array:
        import pyarrow as pa

        return pa.array(self.array(rows), pa.string())

    def stored(self, rows: IntArray, texts: tuple[str, ...] = ()) -> list[bytes | memoryview]:  # noqa: ARG002 - as above
        """Return the bytes of the texts of some samples, which are empty for samples without one."""
        self._check_ends(rows)
        starts, stops = self._starts(rows), self.values[rows]
        data: bytes | memoryview = memoryview(b"") if self.text_bytes is None else self.text_bytes
        # Neighbours are copied at once: slices of bytes take a third of the time of slices of a memory map.
        if len(rows):
            first, end = int(starts.min()), int(stops.max())
            if end - first <= min(_BYTES_AT_ONCE, 2 * int((stops - starts).sum())):
                data, starts, stops = bytes(data[first:end]), starts - first, stops - first
        return [data[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]

    def stored_bytes(self, rows: IntArray) -> npt.NDArray[np.int64]:
        return self.values[rows] - self._starts(rows)

    def _starts(self, rows: IntArray) -> npt.NDArray[np.int64]:
        """Return the offsets of the first bytes of the texts of some samples."""
        return np.where(rows > 0, self.values[np.maximum(rows - 1, 0)], 0)

    def _check_ends(self, rows: IntArray) -> None:
        starts, stops = self._starts(rows), self.values[rows]
        size_bytes = 0 if self.text_bytes is None else len(self.text_bytes)
        if len(rows) and (int(starts.min()) < 0 or (starts > stops).any() or int(stops.max()) > size_bytes):
            raise self.damaged("the ends of its texts do not ascend")

    def _fault(self) -> str | None:
        record, values = self.record, self.values
        if record.length or record.categories or values.dtype != np.int64:
            return f"expected the ends of texts as int64, found {values.dtype} of shape {values.shape}"
        end = int(values[-1]) if len(values) else 0
        if self.text_bytes is not None and len(self.text_bytes) != end:
            return f"expected {end:,} bytes of texts, found {len(self.text_bytes):,}"
        return None

    def check(self, *, reads_values: bool = True) -> None:
        super().check()
        for start in range(0, len(self.values), _TEXTS_AT_ONCE):
            rows = np.arange(start, min(start + _TEXTS_AT_ONCE, len(self.values)))
            self._check_ends(rows)
            if reads_values:
                self.array(rows)


class DateColumn(Column):
    """Dates and times of day, in microseconds and UTC; NaT for samples without one."""

    __slots__ = ()
    kind = "dates"
    is_number = False

    @property
    def may_lack(self) -> bool:
        return True

    def is_known(self, rows: Rows = slice(None)) -> npt.NDArray[np.bool_]:
        known = self._is_marked(rows)
        known &= ~np.isnat(self.values[rows])
        return known

    def _has_gaps(self, values: npt.NDArray[Any]) -> bool:
        return bool(np.isnat(values).all())

    def compared(self, rows: IntArray) -> ComparedValues:
        return ComparedValues(self.values[rows], self.is_known(rows), with_text=date_and_text)


def date_and_text(values: npt.NDArray[Any], text: str) -> tuple[npt.NDArray[Any], np.datetime64]:
    """Return dates as precise as a text, and the date of the text: ``"2024-03"`` is equal to all of March.

    Raises:
        ValueError: The text is not a date.

    >>> date_and_text(np.array(["2024-03-05T10:20"], "M8[us]"), "2024-03")
    (array(['2024-03'], dtype='datetime64[M]'), np.datetime64('2024-03'))
    """
    date = np.datetime64(text.strip().removesuffix("Z"))
    if np.isnat(date):
        raise ValueError(f"{text!r} is not a date")
    return values.astype(date.dtype), date


def text_positions(texts: Sequence[str | None]) -> tuple[IntArray, npt.NDArray[np.bool_], tuple[str, ...]]:
    """Return the position of each text in a list of all, which are known, and the list."""
    positions: dict[str, int] = {}
    codes = np.array([-1 if text is None else positions.setdefault(text, len(positions)) for text in texts], np.int64)
    return codes, codes >= 0, tuple(positions)


def column_class(record: ColumnRecord, dtype: np.dtype[Any]) -> type[Column]:
    """Return the class of a column with such a record, and values of this type in its file."""
    if record.has_texts:
        return TextColumn
    if record.length:
        return VectorColumn
    if record.categories:
        return CategoryColumn
    return DateColumn if dtype.kind == "M" else NumberColumn
