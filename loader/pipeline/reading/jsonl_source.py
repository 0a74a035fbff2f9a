"""A JSONL file as a source: each line is a crude sample with the single part ``json``."""

from __future__ import annotations

from .record_source import RecordSource

__all__ = ["JsonlSource"]


class JsonlSource(RecordSource):
    """The lines of a JSONL file, whose index is next to it; every split part has all of them."""
