"""The form of a CSV or TSV file: its delimiter, its quotes, and the lines before its first record."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from .named_files import is_link, looks_like_file
from .records import NUMBER

HEAD_BYTES = 1 << 16
"""The first bytes of a file that show its form; the delimiters that fit there are counted in all lines."""

_DELIMITERS = ",;\t|"
_LINES_TRIED = 100  # by delimiters, to find names of files
_ROWS_TRIED = 500  # to find what columns have
_SEP = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)  # as Excel writes the delimiter
_WITH_COMMAS = re.compile(r"-?[0-9]+(?:,[0-9]+)+")  # a decimal comma, or commas of thousands
_DIGIT = re.compile(r"\d")
_MISSING = frozenset({"", "-", "?", "na", "n/a", "nan", "nil", "none", "null"})  # no sign of what a column has
_MAX_WORDS = 4  # of the name of a column in a comment

IsName = Callable[[str], bool]
Shape = Literal["number", "link", "file", "text"]
Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Describe how the records of a delimited file are written.

    Attributes:
        skips_blanks: Fields do not have the blanks after a delimiter.
        quotes: Fields do not have the quotes around them, also if these are not needed.
        lines_before: Lines before the first record.
        comments: How many of them are comments, and left out.
        header: Names of columns in a line of ``lines_before``; empty without such a line.
        rows: The first records.
        width: Number of fields that most of them have.
        shapes: What the values of each column are, as far as these are alike.
        agreement: Share of the first records that have so many fields.
    """

    delimiter: str
    skips_blanks: bool = False
    quotes: bool = False
    lines_before: int = 0
    comments: int = 0
    header: tuple[str, ...] = ()
    rows: Rows = ()
    width: int = 1
    shapes: tuple[Shape, ...] = ()
    agreement: float = 0.0

    def split(self, text: str) -> list[str]:
        """Return the fields of a line whose quotes are ordinary characters."""
        fields = text.split(self.delimiter)
        return [field.lstrip(" ") for field in fields] if self.skips_blanks else fields


def find_dialect(
    head: bytes, newline: str, is_name: IsName | None, all_lines: Callable[[], Iterable[bytes]], *, is_tsv: bool
) -> Dialect:
    """Return the form of a file.

    Args:
        head: Its first :data:`HEAD_BYTES`.
        newline: What ends a line.
        is_name: Returns True for the name of a file: a delimiter by which a field of each line is one has precedence.
        all_lines: Returns all lines; called if several delimiters fit the first ones.
        is_tsv: A tab is the delimiter, unless no line has one.
    """
    lines = _lines(head, newline)
    # Excel names the delimiter in a line of its own.
    named = _SEP.fullmatch(lines[0])
    start = int(named is not None)
    # Comments come before the first record.
    stop = next((n for n, line in enumerate(lines) if n >= start and line.strip() and line[0] != "#"), start)
    # Names of files decide, or the delimiter with which all lines agree.
    best = _best(lines[stop:], named[1] if named else _DELIMITERS, is_name, all_lines, is_tsv=is_tsv)
    best = replace(best, shapes=_shapes_of(best))
    # A line that begins with # may be data, too.
    for position in range(start, stop):
        fields = (_read([lines[position]], best) or [[]])[0]
        if len(fields) == best.width > 1 and names_columns(fields, best.rows, is_name) is False:
            best, stop = replace(best, rows=[fields, *best.rows]), position
            break
    # The last comment may name the columns.
    comments = [line for line in lines[start:stop] if line.strip()]
    header = _header_of(comments[-1], best, is_name) if comments else ()
    return replace(best, lines_before=stop, header=header, comments=len(comments) - bool(header))


def delimiter_of(head: bytes, is_name: IsName) -> str:
    """Return the delimiter by which all lines at the begin of a file have as many fields; an empty text for none.

    A delimiter by which a field of most lines is the name of a file has precedence; that may be a blank, too, or a
    colon behind the name.
    """
    lines = _lines(head, "\n")
    named = _delimiter_of_names(lines, is_name)
    if named is not None:
        return named
    before = [line.partition(":")[0] for line in filter(None, lines)]
    if 2 * sum(map(is_name, before)) > len(before):
        return ":"
    forms = [form for form in _forms(lines, _DELIMITERS) if form.agreement == 1]
    return max(forms, key=_worth).delimiter if forms else ""


def names_columns(fields: Sequence[str], rows: Rows, is_name: IsName | None = None) -> bool | None:
    """Return whether the first record names the columns, by those that follow; None if that is unclear.

    A name is unlike the values of its column: it is text where all others are numbers, links or files. A record with
    a link, the name of a file, or a number among numbers is data, and so is a text that its column repeats, or one
    that differs from all others in digits only.
    """
    # pandas writes ascending numbers from 0 as names.
    if len(fields) > 1 and fields == [*map(str, range(len(fields)))]:
        return True
    votes = set[bool]()
    for column, field in enumerate(fields):
        shape = _shape(field)
        if shape == "link" or (is_name is not None and is_name(field)):
            return False
        values = [row[column] for row in rows[:_ROWS_TRIED] if len(row) == len(fields)]
        values = [value for value in values if value.lower() not in _MISSING]
        if field.lower() in _MISSING or not values:
            votes |= {False} if shape != "text" else set()
            continue
        shapes = {*map(_shape, values)}
        if shape == "text" and "text" not in shapes:
            votes.add(True)
        elif shape != "text" or (shapes == {"text"} and _repeats(field, values)):
            votes.add(False)
    return None if not votes else True in votes


def _repeats(text: str, values: Sequence[str]) -> bool:
    """Return True for a text of a column that repeats its texts, or one that differs from all others in digits only."""
    distinct = {*values}
    if text in distinct:
        return len(distinct) < len(values)
    form = _DIGIT.sub("0", text)
    return form != text and len(values) > 1 and all(_DIGIT.sub("0", value) == form for value in distinct)


def _lines(head: bytes, newline: str) -> list[str]:
    """Return the whole lines at the begin of a file."""
    lines = head.decode("utf-8-sig", "surrogateescape").split(newline)
    return [line.rstrip("\r") for line in (lines[:-1] if len(head) >= HEAD_BYTES and len(lines) > 1 else lines)]


def _best(
    lines: Sequence[str],
    delimiters: str,
    is_name: IsName | None,
    all_lines: Callable[[], Iterable[bytes]],
    *,
    is_tsv: bool,
) -> Dialect:
    """Return the form of records by one of the delimiters."""
    if len(delimiters) > 1 and is_tsv and any("\t" in line for line in lines):
        delimiters = "\t"
    if len(delimiters) > 1 and is_name is not None:
        delimiters = _delimiter_of_names(lines, is_name) or delimiters
    forms = _forms(lines, delimiters)
    agreed = [form for form in forms if form.agreement == 1]
    # The other lines tell which of several delimiters they have.
    if len(agreed) > 1:
        for line in all_lines():
            same = [form for form in agreed if line.count(form.delimiter.encode()) + 1 == form.width]
            agreed = same if same and b'"' not in line and line[:1] != b"#" else agreed
            if len(agreed) == 1:
                break
    if agreed or (forms and not is_tsv):
        return max(agreed or forms, key=_worth)
    # Lines that do not agree have the delimiter with which the first one has most fields.
    first = next(filter(None, lines), "")
    best = (
        "\t"
        if is_tsv
        else max(delimiters, key=lambda delimiter: len(next(csv.reader([first], delimiter=delimiter), [])))
    )
    return next((form for form in forms if form.delimiter == best), Dialect(delimiter=best))


def _forms(lines: Sequence[str], delimiters: str) -> list[Dialect]:
    """Return the form by each delimiter that most lines have."""
    forms = []
    quotes = sum(line.count('"') for line in lines)
    for delimiter in delimiters:
        form = Dialect(delimiter=delimiter)
        rows = _read(lines, form)
        # Fields do not have the blanks after delimiters, if these come after all, or before quotes.
        later = [field for row in rows for field in row[1:]]
        if any(field[:1] == " " and field.lstrip(" ")[:1] == '"' for field in later) or all(
            field[:1] == " " for field in later
        ):
            form = replace(form, skips_blanks=True)
            rows = _read(lines, form)
        # Quotes may be ordinary characters, unless there are enough for a column.
        inside = sum(field.count('"') for row in rows for field in row)
        quoted = _described(replace(form, quotes=quotes // 2 - inside >= len(rows) - 1), rows)
        literal = _described(form, [*map(form.split, filter(None, lines))] if quotes else [])
        forms.append(quoted if quoted.agreement >= literal.agreement else literal)
    return [form for form in forms if form.width > 1]


def _described(form: Dialect, rows: Rows) -> Dialect:
    """Return a form with the number of fields that most records have."""
    width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (1, 0)
    return replace(form, rows=rows, width=width, agreement=count / max(1, len(rows)))


def _columns_of(form: Dialect) -> Iterable[Sequence[str]]:
    """Return the values of each column in the first records."""
    rows = [row for row in form.rows[: _ROWS_TRIED + 1] if len(row) == form.width]
    return zip(*(rows[1:] or rows), strict=True)


def _shapes_of(form: Dialect) -> tuple[Shape, ...]:
    """Return what the values of each column are."""
    shapes = ({_shape(value) for value in column if value.lower() not in _MISSING} for column in _columns_of(form))
    return tuple(of_column.pop() if len(of_column) == 1 else "text" for of_column in shapes)


def _read(lines: Sequence[str], form: Dialect) -> list[list[str]]:
    """Return the records of lines; where one cannot be read, those before it."""
    rows = list[list[str]]()
    # Feed the ends of lines, which fields in quotes may have.
    reader = csv.reader((line + "\n" for line in lines), delimiter=form.delimiter, skipinitialspace=form.skips_blanks)
    with suppress(csv.Error):
        rows.extend(filter(None, reader))
    return rows


def _worth(form: Dialect) -> tuple[float, float, int]:
    """Return a key by which the most probable form is the largest: the share of columns of numbers and names counts."""
    known = (shape != "text" for shape in _shapes_of(form))
    return form.agreement, sum(known) / form.width, form.width


def _header_of(comment: str, form: Dialect, is_name: IsName | None) -> tuple[str, ...]:
    """Return the names of columns in a comment; none if it has others, or if the first record has them."""
    fields = (_read([comment], form) or [[]])[0]
    follows = names_columns(form.rows[0], form.rows[1:], is_name) if form.rows else None
    if len(fields) != form.width or form.width == 1 or follows or names_columns(fields, form.rows, is_name) is False:
        return ()
    fields[0] = fields[0].lstrip("#").strip() or fields[0]
    # Prose is a comment, and more so if the first record may have the names.
    most = _MAX_WORDS if follows is False else _MAX_WORDS // 2
    return (*fields,) if all(len(field.split()) <= most for field in fields) else ()


def _delimiter_of_names(lines: Sequence[str], is_name: IsName) -> str | None:
    """Return the delimiter by which most lines name a file, an empty text for a blank; None if files are not named."""
    filled = [*filter(None, lines)]
    rows = filled[1:_LINES_TRIED] or filled
    # A blank divides a line once: a name and a text, or an id and a name.
    cut = {d: [fields for text in rows if len(fields := text.split(d)) > 1] for d in _DELIMITERS}
    cut[""] = [text.split(maxsplit=1) for text in rows]
    named = {d: sum(any(map(is_name, fields)) for fields in lines) for d, lines in cut.items()}
    best = max(named, key=lambda d: named[d])
    return best if 2 * named[best] > len(rows) else None


def _shape(field: str) -> Shape:
    if NUMBER.fullmatch(field) or _WITH_COMMAS.fullmatch(field):
        return "number"
    if "://" in field[:16] and is_link(field):
        return "link"
    return "file" if "." in field[-11:] and looks_like_file(field) else "text"


def fits(fields: Sequence[str], dialect: Dialect, *, is_tsv: bool) -> bool:
    """Return True for the fields of a line that has the form of a record: as many, and of the same shapes."""
    if len(fields) != dialect.width or dialect.width == 1:
        return False
    pairs = [(shape, _shape(field)) for shape, field in zip(dialect.shapes, fields, strict=False) if shape != "text"]
    # Texts rarely have tabs, but commas.
    return (is_tsv or bool(pairs)) and all(a == b for a, b in pairs)
