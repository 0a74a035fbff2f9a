"""The columns of a table: as they are, what their values are, and the parts that they become."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...arrays import IntArray, union
from ...errors import SampleError
from ...format.documents.conversation import PATHS_IN_TEXT
from ...format.records.table_schema import ClassNames
from ...parts.kinds import usual_extension
from ...prepare.contents.texts import Texts
from .inline_data import inline_contents, is_inline
from .name_index import FORMS, STEM
from .named_files import (
    KEY_NAMES,
    MEDIA_NAMES,
    NamedFiles,
    extension_of_path,
    file_extension,
    is_link,
    looks_like_file,
    plain_name,
)
from .records import INTEGER, NUMBER
from .split_names import SPLIT_NAMES

ColumnType = Literal[
    "text", "integer", "number", "bytes", "media", "media list", "text list", "number list", "nested", "empty"
]
"""Type of the values: ``media`` is a struct of bytes and a path, as in Hugging Face datasets; ``number list`` is a list
of numbers in an Arrow table, which says their type."""

Role = Literal["key", "split", "path", "url", "bytes", "text", "label", "json", "array", "document", "not written"]
"""What becomes of a column: the key, the split part, or a part of the sample; ``document`` is that of lists of texts
and pictures that line up, and of what belongs to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundColumn:
    """A column with its use, for people.

    Attributes:
        part: The part that it becomes, or is in; None for the key and the split.
    """

    name: str
    type: ColumnType
    role: Role
    part: str | None
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartColumns:
    """A part, and the columns that it is made of.

    Attributes:
        name: Its name, with the extension that the first rows suggest.
        role: How the value becomes bytes.
        columns: One column, or several that become an object of JSON.
        is_list: The value is a list, and each element becomes a part: ``images.0.jpg``, ``images.1.jpg``.
    """

    name: str
    role: Role
    columns: tuple[str, ...]
    is_object: bool = False
    named_by_contents: bool = False
    is_list: bool = False

    def element_name(self, index: int) -> str:
        first, _, extension = self.name.rpartition(".")
        return f"{first}.{index}.{extension}".removeprefix(".")


BEGIN_NAMES = frozenset(
    {"offset", "start", "begin", "onset", "starttime", "begintime", "startsec", "startseconds", "starttimeseconds"}
)
"""Names of columns that say where in a recording a segment begins, in seconds."""
_END_NAMES = frozenset({"end", "stop", "endtime", "stoptime", "endsec", "endseconds", "endtimeseconds"})
_DURATION_NAMES = frozenset({"duration", "dur", "durationsec", "durationseconds"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentColumns:
    """The columns that name a segment of a recording, in seconds.

    Attributes:
        end: Where it ends, or its duration; empty for segments up to the ends of recordings.
    """

    begin: str
    end: str = ""
    is_duration: bool = False


def segment_columns(columns: Sequence[TableColumn]) -> SegmentColumns | None:
    """Return the columns that name segments of recordings; None if no column has begins."""
    numbers = {column.plain_name: column.name for column in reversed(columns) if column.type in ("integer", "number")}
    begin = next((name for name in reversed(numbers) if name in BEGIN_NAMES), None)
    if begin is None:
        return None
    # Sound events have an onset and an offset, which is an offset from the begin of a recording elsewhere.
    ends = {"offset"} if begin == "onset" else _END_NAMES
    end = next((numbers[name] for name in numbers if name in ends), "")
    duration = next((numbers[name] for name in numbers if name in _DURATION_NAMES), "")
    return SegmentColumns(begin=numbers[begin], end=end or duration, is_duration=not end and bool(duration))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """The conversion of the rows of a table to samples.

    Attributes:
        key: Column with the keys; None makes them of paths or of the number of the row.
        split: Column with the split parts.
        found: All columns, in the order of the table.
        class_names: Column → names of its classes, which an object of JSON has instead of numbers; texts among them
            are its ``label_name``.
        keeps_others: Values of columns that the first rows do not have are members of the object of JSON, too.
        keeps_text_only: Rows without a picture or another file are samples, too.
        segment: Columns with the segments that are cut out of recordings.
    """

    key: str | None
    split: str | None
    parts: tuple[PartColumns, ...]
    found: tuple[FoundColumn, ...]
    class_names: Mapping[str, ClassNames]
    keeps_others: bool
    files: NamedFiles
    keeps_text_only: bool
    notes: tuple[str, ...]
    group: str | None = None  # column by whose values rows are one sample
    group_reader: str | None = None  # of rows that name one picture, which may be none; None for groups of values
    segment: SegmentColumns | None = None

    @property
    def object_part(self) -> PartColumns | None:
        """The part that is an object of several columns."""
        return next((part for part in self.parts if part.is_object), None)


EXAMPLE_ROWS = 100
"""Number of rows whose values are examples."""

_MAX_DISTINCT = 21  # more are no split parts
_MIN_SHARE = 0.9
_MAX_PATH = 1024
_SHORT = 16  # numbers of a box, a pose or a matrix; tokens and embeddings have more


class TableColumn:
    """A column of a table; its values are added in the order of the rows.

    Args:
        files: The files that its values may name.
        type: Type of its values, if the table says it.
        inner_names: Names of classes whose numbers are in its lists and objects.

    Attributes:
        class_names: Names of classes, if its values are their numbers, or these names.
        examples: The first values that are not empty.
        values: The values of the first rows; None where there is none.
        known: Values that are not empty.
        paths: Texts that end in the extension of a file.
        inline: Texts that are pictures, sounds or videos in base64.
        resolved: Texts and integers, of all that were ``followed``, that name a file of a tree.
        most_files: Largest number of files that a list or an object names.
        order: Numbers of the files that it names, in the order of the values, and in ``order_forms`` how.
        forms: How it names them.
        is_constant: All values are equal.
        lengths: Lengths of its lists of numbers in an Arrow table; only some if they differ or are long.
        has_files: One of the texts names a file that exists.
        first_file: The first text that names an existing file, or holds one.
        follows_all: The column may be the key or the split, so that all of its values count.
        distinct: The first different values of a column that :attr:`follows_all`.
        texts: What its texts have in common, which may be names of classes.
    """

    def __init__(
        self,
        name: str,
        files: NamedFiles,
        *,
        type: ColumnType | None = None,  # noqa: A002 - the name of the attribute
        inner_names: ClassNames = (),
        is_text: bool = False,
    ) -> None:
        # What the table says.
        self.name = name
        self.plain_name = plain_name(name)
        self.class_names: tuple[str, ...] = ()
        self.inner_names = inner_names
        self.is_named_media = bool(MEDIA_NAMES.search(self.plain_name))
        # What the values say, as far as they are added.
        self.examples: list[Any] = []
        self.values: list[Any] = []
        self.rows = self.known = self.links = self.media_links = self.paths = self.inline = 0
        self._elements = 0  # texts in lists
        self.followed = self.resolved = self.most_files = 0
        self.order, self.order_forms = array("i"), array("b")
        self.forms: Counter[int] = Counter()
        self.is_constant = True
        self.lengths: set[int] = set()
        self.has_files = False
        self.first_file = ""
        self.extensions: Counter[str] = Counter()
        self.files = files
        self._type = type
        self._kinds: Counter[Any] = Counter()
        self._numbers = is_text
        self._integers = is_text
        self.distinct: set[Any] = set()
        self.texts = Texts()
        self._hashes = array("q")
        self.follows_all = self.plain_name in KEY_NAMES | SPLIT_NAMES

    def __getstate__(self) -> dict[str, Any]:
        # The process that gets it has the files.
        return {**vars(self), "files": None}

    @property
    def type(self) -> ColumnType:
        """Type of the values; the type of nearly all values where a table has several."""
        if self._type is not None:
            return self._type
        if not self.known:
            return "empty"
        # All values of a text table are texts, which may be numbers.
        if self._numbers:
            return "integer" if self._integers else "number"
        # Else the kind of nearly all values decides.
        kinds = {kind: count / self.known for kind, count in self._kinds.items()}
        if kinds.get(str, 0) >= _MIN_SHARE:
            return "text"
        if kinds.keys() <= {int}:
            return "integer"
        if kinds.keys() <= {int, float}:
            return "number"
        return "text list" if kinds.get(list, 0) >= _MIN_SHARE else "nested"

    @property
    def has_short_lists(self) -> bool:
        """True for lists of numbers with one length that is short, such as boxes."""
        return len(self.lengths) <= 1 and max(self.lengths, default=0) <= _SHORT

    @property
    def names_files(self) -> bool:
        """True if half of the values, or more, name files of the tree."""
        return 0 < self.followed <= 2 * self.resolved

    @property
    def has_repeats(self) -> bool:
        """True if a file is named several times; outside of a tree, if the first values repeat."""
        if self.order:
            return len(self.order) > len(self.named)
        texts = [value for value in self.values if isinstance(value, str)]
        return len({*texts}) < len(texts)

    @property
    def named(self) -> IntArray:
        """Numbers of the files that it names, ascending."""
        return self.named_by(len(FORMS))

    def named_by(self, weakest_form: int) -> IntArray:
        """Return the numbers of the files that it names in a form or a stronger one, or without an extension."""
        forms = np.array(self.order_forms)
        return union([np.array(self.order, np.int64)[(forms <= weakest_form) | (forms == STEM)]])

    @property
    def is_unique(self) -> bool:
        """True if every row of a column that :attr:`follows_all` has a value of its own."""
        return self.known == self.rows == len(self.unique_hashes())

    @property
    def row_hashes(self) -> IntArray:
        """The hashes of the values, one of each row; empty where a row has none."""
        return np.frombuffer(self._hashes if len(self._hashes) == self.rows else b"", np.int64)

    def unique_hashes(self) -> IntArray:
        """Return the hashes of the different values, ascending, of a column that may be compared with others."""
        return union([np.frombuffer(self._hashes, np.int64)])

    def share(self, count: int) -> float:
        """Return a number of texts as a share of all that are not empty."""
        total = self._elements or self.known
        return count / total if total else 0.0

    def add(self, values: Sequence[Any]) -> None:
        # Keep examples, and count what all values have in common.
        known = [value for value in values if value is not None and value != ""]
        self.rows += len(values)
        self.values += values[: EXAMPLE_ROWS - len(self.values)]
        self.known += len(known)
        kinds = Counter[Any](map(type, known))
        are_texts = kinds.keys() <= {str}
        self._kinds += kinds
        self.examples += known[: EXAMPLE_ROWS - len(self.examples)]
        self.is_constant = self.is_constant and known.count(known and self.examples[0]) == len(known)
        if self._numbers:
            distinct = {*known}
            self._integers = self._integers and all(map(INTEGER.fullmatch, distinct))
            self._numbers = self._integers or all(map(NUMBER.fullmatch, distinct))
        # Keys and splits need every value: splits their different values, keys a hash each.
        if self.follows_all and len(self.distinct) < _MAX_DISTINCT:
            self.distinct.update(map(str, known))
        if self.files.is_tree:
            plain = known if are_texts else [str(value) for value in known if type(value) in (str, int)]
            self._hashes.frombytes(np.fromiter(map(hash, plain), np.int64, len(plain)).tobytes())
            self._find(known, plain)
        elif self.follows_all:
            self._hashes.extend(map(hash, map(str, known)))
        if self.texts.values is not None:
            self.texts.add(known if are_texts else [value for value in known if isinstance(value, str)])
        # Follow texts, also in lists; numbers are neither paths nor links, and most texts have no sign of one.
        if self._numbers and not self.is_named_media:
            known = []
        elif are_texts and not self.is_named_media:
            known = [text for text in known if "." in text[-11:] or " " not in text[:64] or "://" in text[:16]]
        for value in known:
            if isinstance(value, str):
                self._follow_text(value)
            elif isinstance(value, list):
                texts = [element for element in value if isinstance(element, str)]
                self._elements += len(texts)
                if len(texts) < sum(element is not None for element in value):
                    self._kinds[dict] += 1  # no list of texts
                    self._kinds[list] -= 1
                for text in texts:
                    self._follow_text(text)

    def _find(self, values: Sequence[Any], plain: list[str]) -> None:
        """Find the files of a tree that texts and integers name, also inside of lists and objects.

        Args:
            plain: The texts and integers among the values, as texts.
        """
        # Look each different text up once.
        texts, nested = plain, list[tuple[int, int]]()
        if len(plain) < len(values):
            texts = []
            for value in values:
                before = len(texts)
                texts.extend(texts_in(value))
                if isinstance(value, dict | list):
                    nested.append((before, len(texts)))
        position_of = {text: position for position, text in enumerate(dict.fromkeys(texts))}
        distinct = [*position_of]
        files, forms = self.files.find_all(distinct)
        # A file outside of the tree is named, too: its row fails, unless the user allows it.
        others = () if self._numbers else np.flatnonzero(files < 0).tolist()
        outside = [n for n in others if looks_like_file(distinct[n]) and self.files.exists(distinct[n])]
        are_named = files >= 0
        are_named[outside] = True
        # Count each text as often as it comes.
        if len(distinct) < len(texts):
            positions = np.fromiter(map(position_of.__getitem__, texts), np.int64, len(texts))
            files, forms, are_named = files[positions], forms[positions], are_named[positions]
        known = files >= 0
        self.order.frombytes(files[known].astype(np.int32).tobytes())
        self.order_forms.frombytes(forms[known].astype(np.int8).tobytes())
        counts = np.bincount(forms[are_named])  # outside of the tree, the form is a path
        self.forms.update({form: count for form, count in enumerate(counts.tolist()) if count})
        self.followed += len(texts)
        self.resolved += int(are_named.sum())
        # An object may name one file twice: by its path and a URL.
        several = (len({*files[start:stop][known[start:stop]].tolist()}) for start, stop in nested)
        elsewhere = (int((are_named & ~known)[start:stop].sum()) for start, stop in nested)
        self.most_files = max(self.most_files, *map(sum, zip(several, elsewhere, strict=True)), 0)

    def _follow_text(self, text: str) -> None:
        """Count a text that is a path, URL or picture. Captions are the most, so the first tests are fast ones."""
        if "://" in text[:16] and is_link(text):
            self.links += 1
            if extension := file_extension(text):
                self.media_links += 1
                self.extensions[extension] += 1
        elif len(text) >= 22 and " " not in text[:64] and is_inline(text):
            self.inline += 1
            self.first_file = self.first_file or f"{text[:16]}…"
        elif (extension := file_extension(text) if "." in text[-11:] else "") or self.is_named_media:
            if extension:
                self.paths += 1
                self.extensions[extension] += 1
            if not self.has_files and len(text) <= _MAX_PATH and self.files.exists(text):
                self.has_files = True
                self.first_file = text

    @property
    def usual_extension(self) -> str | None:
        """The extension that most values have: paths in all rows, contents in the examples."""
        if self.order:
            return Counter(map(self.files.extension, self.named.tolist())).most_common(1)[0][0]
        counts = self.extensions or Counter(filter(None, map(_extension, flat(self.examples))))
        return counts.most_common(1)[0][0] if counts else None


def texts_in(value: object) -> Iterator[str]:
    """Yield the texts and integers in a value as texts, also those inside of its lists and objects.

    Numbers in a list, such as a box, name nothing. Of a text with the paths of media, as chats have them, the
    paths are yielded.

    >>> [*texts_in({"image": 7, "bbox": [1, 2, 3, 4], "pages": ["a.jpg", {"id": 9}]})]
    ['7', 'a.jpg', '9']
    """
    if isinstance(value, str):
        paths = PATHS_IN_TEXT.findall(value) if "</" in value else ()
        yield from (path for _, path in paths) if paths else (value,)
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(value, dict) or type(inner) is not int:
                yield from texts_in(inner)
    elif type(value) is int:
        yield str(value)


def flat(values: Iterable[object]) -> list[object]:
    """Return values and the elements of lists among them."""
    return [element for value in values for element in (value if isinstance(value, list) else [value])]


def _extension(value: object) -> str | None:
    if isinstance(value, dict):
        data, path = value.get("bytes"), value.get("path")
        return usual_extension(data) if isinstance(data, bytes) else extension_of_path(path or "")
    if isinstance(value, str) and is_inline(value):
        with suppress(SampleError):  # a damaged URL
            value = inline_contents(value)
    return usual_extension(value) if isinstance(value, bytes) else None
