"""Times of shards are compared with the precision of the place of the dataset."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loader.format.index.layout import ShardEntry
from loader.storage import FileInfo

INDEXED_NS = 1_763_000_000_123_456_789


@pytest.mark.parametrize(
    ("now_ns", "is_touched"),
    [
        (INDEXED_NS, False),
        (INDEXED_NS + 1, True),
        (1_763_000_000_123_456_000, False),
        (1_763_000_000_123_000_000, False),
        (1_763_000_000_000_000_000, False),
        (1_763_000_001_000_000_000, True),
        (1_763_000_000_124_000_000, True),
        (1_763_000_000_120_000_000, True),
        (0, False),
    ],
)
def test_a_time_of_less_precision_is_no_change(now_ns: int, is_touched: bool) -> None:
    def entry(etag: str) -> ShardEntry:
        return ShardEntry(
            name="a.tar",
            size_bytes=1024,
            mtime_ns=INDEXED_NS,
            samples=1,
            first_sample=0,
            end_offset=0,
            plain=True,
            etag=etag,
        )

    now = FileInfo(name="a.tar", size_bytes=1024, mtime_ns=now_ns)
    assert entry("").was_touched(now) is is_touched
    assert entry("v1").was_touched(now) is is_touched
    assert not entry("v1").was_touched(replace(now, etag="v1"))


@pytest.mark.parametrize(
    ("store", "now_store", "is_compared"),
    [
        ("s3:1", "s3:1", True),
        ("s3:1", "s3:2", False),
        ("s3:1", "https:1", False),
        ("https:1", "https:1", True),
        ("", "s3:1", True),
        ("s3:1", "", True),
        ("", "https:1", False),
        ("s3:1", None, False),
        ("", None, False),
    ],
)
def test_versions_of_two_stores_are_not_compared(store: str, now_store: str | None, is_compared: bool) -> None:
    indexed = FileInfo(name="a.tar", size_bytes=1024, mtime_ns=INDEXED_NS, etag="v1", store=store)
    now = FileInfo(name="a.tar", size_bytes=1024, mtime_ns=INDEXED_NS, etag="v2", store=now_store)
    assert indexed.shares_versions(now) is now.shares_versions(indexed) is is_compared
