"""Rows of one group, such as the boxes of a picture, as one sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ...errors import plural
from .row import AnnotationRef, ElementRef, PartRef, Row, ValueRef, unique_part


def join_groups(rows: Iterable[Row], notes: list[str]) -> Iterator[Row]:
    """Yield rows without a group, and then a row for each group, in the order of their first rows.

    A row belongs to a group by its :class:`.ElementRef`. The sample of a group has the key and the files of its first
    row, files of later rows that differ, and a list of the elements. Rows of a group in several split parts are a
    sample in each. A note says how many samples the rows became.
    """
    groups: dict[tuple[str, str], tuple[Row, list[ValueRef]]] = {}
    joined_rows = 0
    for row in rows:
        for name, element in row.parts.items():  # noqa: B007 - the name is used below
            if type(element) is ElementRef:
                break
        else:
            yield row
            continue
        first, elements = groups.setdefault((element.group, row.split), (row, []))
        elements.append(element)
        joined_rows += 1
        for other, part in row.parts.items():
            if other != name and part not in first.parts.values():
                first.parts[unique_part(other, first.parts)] = part
    # All rows are known: yield the samples.
    if groups:
        rows_are = plural(joined_rows, "row is", "rows are")
        notes.append(f"{rows_are} {plural(len(groups), 'sample')}, one for each value of the column")
    for first, elements in groups.values():
        data = b"[" + b",".join(element.data for element in elements) + b"]"
        joined = ValueRef(data, is_lossy=any(element.is_lossy for element in elements))
        reader = next(part.reader for part in first.parts.values() if isinstance(part, ElementRef))
        whole = AnnotationRef(joined, reader) if reader else joined
        parts: dict[str, PartRef] = {
            name: whole if isinstance(part, ElementRef) else part for name, part in first.parts.items()
        }
        yield msgspec.structs.replace(first, parts=parts)
