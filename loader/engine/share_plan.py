"""The division of a job's tasks into shares of about equal bytes.

The first share writes the plan, once, so that all shares agree even if inputs arrive meanwhile. The commit removes it.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise

import msgspec

from ..errors import FormatError, StorageError
from ..storage import FileInfo, Storage, read_document

BYTES_PER_SHARD = 1 << 20  # opening a shard takes as long as reading about so many bytes


class SharePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The shards of each share."""

    starts: tuple[int, ...]  # number of the first shard of each share
    shards: tuple[str, ...]  # names of the shards, in the order of the dataset
    planned_at: str  # time in UTC

    @property
    def count(self) -> int:
        """Number of shares."""
        return len(self.starts)

    def shards_of(self, share: int) -> tuple[str, ...]:
        """Return the shards of a share; shares are numbered from 1."""
        stop = self.starts[share] if share < self.count else len(self.shards)
        return self.shards[self.starts[share - 1] : stop]


def divide(sizes: Sequence[int], shares: int) -> tuple[int, ...]:
    """Return the number of the first item of each share: runs of neighbours of about the same size.

    >>> divide([1, 1, 4, 1, 1], 2)
    (0, 2)
    """
    ends = list(accumulate(sizes))
    total = ends[-1] if ends else 0
    # An item belongs to the share that has its middle.
    doubled_middles = [2 * end - size for end, size in zip(ends, sizes, strict=True)]
    return tuple(bisect_left(doubled_middles, -(-2 * total * share // shares)) for share in range(shares))


def divide_shards(shards: Sequence[FileInfo], shares: int) -> SharePlan:
    """Divide shards into runs of neighbours of about the same size in bytes.

    >>> shards = [FileInfo(name=name, size_bytes=1 << 30, mtime_ns=0) for name in "abc"]
    >>> plan = divide_shards(shards, 2)
    >>> plan.shards_of(1), plan.shards_of(2)
    (('a',), ('b', 'c'))
    """
    return SharePlan(
        starts=divide([shard.size_bytes + BYTES_PER_SHARD for shard in shards], shares),
        shards=tuple(shard.name for shard in shards),
        planned_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


def read_plan(storage: Storage, file: str) -> SharePlan | None:
    """Read the plan of a job in shares; return None without one."""
    try:
        plan = msgspec.convert(json.loads(read_document(storage, file)), SharePlan)
        if plan.starts[:1] != (0,) or any(start > stop for start, stop in pairwise([*plan.starts, len(plan.shards)])):
            raise ValueError("its shares do not divide its shards")  # noqa: TRY301 - as a damaged document
    except StorageError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return None
        raise
    except (ValueError, msgspec.ValidationError) as error:
        raise FormatError(
            f"the plan of the shares is damaged: {error}",
            shard=storage.path(file),
            hint="remove this file and run all shares again; they keep what is done",
        ) from error
    return plan


def write_plan(storage: Storage, file: str, plan: SharePlan) -> SharePlan:
    """Write a plan; return the one that counts, which another share may have written before."""
    storage.create_once(file, json.dumps(msgspec.to_builtins(plan)).encode("ascii"))
    written = read_plan(storage, file)
    return plan if written is None else written
