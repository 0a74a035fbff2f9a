"""Whether ``index.sqlite`` says of every shard what its headers say: other tools read by it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import numpy as np

from ..storage import Storage
from .dataset_folder import DatasetFolder
from .findings import Finding
from .nv_meta import INDEX_SQLITE
from .shard_index import ShardIndex
from .sqlite_file import open_sqlite

__all__ = ["check_sqlite", "check_sqlite_rows"]

_WRITE_ANEW = "energon prepare --force-overwrite writes it anew"
_ROWS_AT_ONCE = 20_000


def check_sqlite(dataset: DatasetFolder) -> Iterator[Finding]:
    """Check that the file can be read, and holds no shards but the dataset's."""
    if not dataset.storage.exists(INDEX_SQLITE):
        return
    try:
        with closing(open_sqlite(dataset.storage.local_path(INDEX_SQLITE))) as database:
            # The first and the last entry of the primary key, not a walk over all rows.
            ends = ("ORDER BY tar_file_id LIMIT 1", "ORDER BY tar_file_id DESC LIMIT 1")
            queries = (f"SELECT tar_file_id FROM samples {end}" for end in ends)  # noqa: S608 - constants
            found = [row[0] for query in queries for row in database.execute(query)]
    except sqlite3.Error as error:
        yield Finding(code="E006", message=f"index.sqlite cannot be read ({error}): {_WRITE_ANEW}")
        return
    shards = len(dataset.shard_counts)
    strange = [number for number in found if number not in range(shards)]
    if strange:
        message = (
            f"index.sqlite holds samples of shard number {strange[-1]}, and .info.json has {shards} shards: "
            f"{_WRITE_ANEW}"
        )
        yield Finding(code="E006", message=message)


def check_sqlite_rows(storage: Storage, number: int, shard: str, scanned: ShardIndex) -> Iterator[Finding]:
    """Compare the rows of one shard with its headers; report the first that differs.

    Args:
        storage: The dataset.
        number: The shard's number (``tar_file_id``).
        shard: Its name.
        scanned: What its headers say; samples whose parts are not neighbours cannot be expressed.
    """
    try:
        with closing(open_sqlite(storage.local_path(INDEX_SQLITE))) as database:
            yield from _compare_samples(database, number, shard, scanned)
            if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'sample_parts'").fetchone():
                yield from _compare_parts(database, number, shard, scanned)
    except sqlite3.Error as error:
        yield Finding(code="E006", message=f"index.sqlite cannot be read ({error}): {_WRITE_ANEW}", shard=shard)


def _compare_samples(database: sqlite3.Connection, number: int, shard: str, scanned: ShardIndex) -> Iterator[Finding]:
    keys, offsets, sizes = scanned.keys(), scanned.sample_offsets, np.diff(scanned.sample_offsets)
    cursor = database.execute(
        "SELECT sample_key, sample_index, byte_offset, byte_size FROM samples WHERE tar_file_id = ? "
        "ORDER BY sample_index",
        (number,),
    )
    for rows in _chunks(len(scanned)):
        expected = zip(
            keys[rows],
            range(rows.start, rows.stop),
            offsets[:-1][rows].tolist(),
            sizes[rows].tolist(),
            strict=True,
        )
        found = cursor.fetchmany(rows.stop - rows.start)
        for sample, (right, row) in enumerate(zip(expected, [*found, None], strict=False), start=rows.start):
            if row != right:
                message = f"index.sqlite has {row}, the shard has sample {right}: {_WRITE_ANEW}"
                yield Finding(code="E006", message=message, shard=shard, key=keys[sample], offset=int(offsets[sample]))
                return
    if cursor.fetchone() is not None:
        message = f"index.sqlite has more samples than the shard's {len(scanned)}: {_WRITE_ANEW}"
        yield Finding(code="E006", message=message, shard=shard)


def _compare_parts(database: sqlite3.Connection, number: int, shard: str, scanned: ShardIndex) -> Iterator[Finding]:
    sample_of = np.repeat(np.arange(len(scanned)), np.diff(scanned.part_ends, prepend=0))
    cursor = database.execute(
        "SELECT sample_index, part_name, content_byte_offset, content_byte_size FROM sample_parts "
        "WHERE tar_file_id = ? ORDER BY sample_index, content_byte_offset",
        (number,),
    )
    for rows in _chunks(len(sample_of)):
        expected = zip(
            sample_of[rows].tolist(),
            (scanned.part_names[name] for name in scanned.part_name[rows].tolist()),
            scanned.part_offset[rows].tolist(),
            scanned.part_size[rows].tolist(),
            strict=True,
        )
        found = cursor.fetchmany(rows.stop - rows.start)
        for right, row in zip(expected, [*found, None], strict=False):
            if row != right:
                sample, part, offset, _ = right
                message = f"index.sqlite has {row}, the shard has part {right}: {_WRITE_ANEW}"
                key = scanned.keys()[sample]
                yield Finding(code="E006", message=message, shard=shard, key=key, part=part, offset=offset)
                return
    if cursor.fetchone() is not None:
        message = f"index.sqlite has more parts than the shard's {len(sample_of)}: {_WRITE_ANEW}"
        yield Finding(code="E006", message=message, shard=shard)


def _chunks(rows: int) -> Iterator[slice]:
    for start in range(0, rows, _ROWS_AT_ONCE):
        yield slice(start, min(start + _ROWS_AT_ONCE, rows))
