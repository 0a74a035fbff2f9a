"""What a collection of media metadata came to, as text and as ``--json`` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..console import plural

if TYPE_CHECKING:
    from loader.format.media.tables import MediaReport

__all__ = ["media_document", "media_line"]


def media_document(report: MediaReport) -> dict[str, Any]:
    """Give the report with stable keys."""
    return {
        "strategy": report.media_filter.strategy,
        "patterns": list(report.media_filter.patterns),
        "entries": report.entries,
        "collected": report.collected,
        "broken": report.broken,
    }


def media_line(report: MediaReport) -> str:
    """Say it in one line."""
    kept = report.entries - report.collected
    unchanged = f", {kept:,} of them from before" if kept > 0 else ""
    return f"media metadata of {plural(report.entries, 'part')}{unchanged}"
