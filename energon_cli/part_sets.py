"""Print the table of part sets: which part names occur together, and in how many samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .console import escape_controls, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from loader.accounting.part_sets import PartSets

__all__ = ["print_part_sets"]

_MAX_ROWS = 8
_MAX_NAMES = 12  # of a part set


def print_part_sets(console: Console, table: PartSets) -> None:
    """Print the most frequent part sets, and the number of the others."""
    from rich.table import Table

    if not table.sets:
        return
    rows = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    rows.add_column("part set")
    for heading in ("samples", "shards"):
        rows.add_column(heading, justify="right")
    rows.add_column("example")
    for each in table.sets[:_MAX_ROWS]:
        more = len(each.parts) - _MAX_NAMES
        names = " ".join(map(escape_controls, each.parts[:_MAX_NAMES])) + (f" … and {more:,} more" if more > 0 else "")
        rows.add_row(names, f"{each.samples:,}", f"{each.shards:,}", escape_controls(each.example))
    print_table(console, rows)
    if len(table.sets) > _MAX_ROWS:
        more = len(table.sets) - _MAX_ROWS
        console.print(f"… and {'more than ' if table.others else ''}{more:,} more part sets (--json lists them)")
