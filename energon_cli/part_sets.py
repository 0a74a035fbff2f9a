"""Print the table of part sets: which part names occur together, and in how many samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .console import print_table

if TYPE_CHECKING:
    from rich.console import Console

_MAX_ROWS = 8
_MAX_NAMES = 12  # of a part set


def print_part_sets(console: Console, part_sets: Sequence[Mapping[str, Any]], *, is_complete: bool = True) -> None:
    """Print the most frequent part sets, and the number of the others.

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
