"""Show what became of a command's input: a line for each reason on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loader.accounting import Account, AccountEntry


def show_account(account: Account) -> None:
    """Print what was left out and what failed, a line for each reason; nothing if everything was used."""
    from loader.errors import escape_controls

    from .console import error_console
    from .settings import output_settings

    console = error_console()
    if account.hidden and output_settings().verbosity:
        console.print(f"not counted: {account.hidden:,} hidden files and folders, and index files")
    if account.is_complete:
        return
    for fate, entries in (("left out", account.left_out), ("failed", account.failed)):
        for entry in entries:
            console.print(f"{fate}: {escape_controls(_line(entry))}", style="yellow")
    console.print("energon rule CODE explains a code", style="dim")


def _line(entry: AccountEntry) -> str:
    from loader.accounting import REASONS
    from loader.inspect import format_bytes, plural

    size = f" ({format_bytes(entry.size_bytes)})" if entry.size_bytes else ""
    example = f", first {entry.example}" if entry.count > 1 else f": {entry.example}"
    counted = plural(entry.count, entry.unit.removesuffix("s"))
    return f"{counted}{size}, {REASONS[entry.reason]}{example if entry.example else ''} [{entry.reason}]"
