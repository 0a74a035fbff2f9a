"""Print tables: of any rows, and of the part sets of a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import escape_controls

if TYPE_CHECKING:
    from rich.console import Console

_MAX_ROWS = 8
_MAX_NAMES = 12  # of a part set


def print_table(console: Console, headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table whose columns break words only if the longest words are wider than the console.

    When piped, the spaces that pad its last column are stripped.

    Args:
        console: The console.
        headings: A heading for each column; of numbers, which are aligned to the right, with ``>`` before it.
        rows: Strings and renderables for each row.
    """
    from rich.measure import measure_renderables
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=any(headings))
    for heading in headings:
        table.add_column(heading.removeprefix(">"), justify="right" if heading[:1] == ">" else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape_controls(cell) if isinstance(cell, str) else cell for cell in row))
    # A column needs the width of its longest word; of numbers, that of its longest line.
    longest, widths = [], []
    for column in table.columns:
        head, cells = (
            measure_renderables(console, console.options, [*some]) for some in ([column.header], column.cells)
        )
        widths.append(max(head.maximum, cells.maximum))
        longest.append(max(head.minimum, cells.maximum if column.justify == "right" else cells.minimum))
    room = console.width - 2 * (len(widths) - 1)
    least = longest if sum(longest) <= room else [1] * len(widths)
    while sum(widths) > room and (wide := [at for at, width in enumerate(widths) if width > least[at]]):
        widths[max(wide, key=widths.__getitem__)] -= 1  # take from the widest column
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width or None
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        console.file.write(f"{line.rstrip()}\n")  # print() would escape the colours of --color always


def print_part_sets(console: Console, part_sets: Sequence[Mapping[str, Any]], *, is_complete: bool = True) -> None:
    """Print which part names occur together, the most frequent sets first, and the number of the others.

    Args:
        console: The console.
        part_sets: The table as ``--json`` prints it.
        is_complete: There are no further part sets.
    """
    if not part_sets:
        return
    rows = []
    for each in part_sets[:_MAX_ROWS]:
        more = len(each["parts"]) - _MAX_NAMES
        names = " ".join(each["parts"][:_MAX_NAMES]) + (f" … and {more:,} more" if more > 0 else "")
        rows.append((names, f"{each['samples']:,}", f"{each['shards']:,}", each["example"]))
    print_table(console, ("part set", ">samples", ">shards", "example"), rows)
    more = len(part_sets) - _MAX_ROWS
    if more > 0:
        console.print(f"… and {'' if is_complete else 'at least '}{more:,} more part sets (--json lists them)")
