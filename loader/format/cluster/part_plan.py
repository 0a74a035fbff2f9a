"""The plan of a prepare in parts: which part scans which shards.

The first part writes it, once, so that all parts agree even if shards arrive meanwhile. The commit removes it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from ...errors import ConfigError, FormatError, StorageError
from ...storage import FileInfo, Storage, read_document
from ...version import __version__
from ..index.journal import ScanFolders
from ..nv_meta import WORK_FOLDER

PART_PLAN = f"{WORK_FOLDER}/parts.json"
_BYTES_PER_SHARD = 1 << 20
"""Opening a shard takes as long as scanning about so many bytes."""


class PartPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The shards of each part.

    Attributes:
        starts: Number of the first shard of each part.
        shards: Names of the shards, in the order of the dataset.
        planned_at: Time in UTC.
        planned_by: Program and version.
    """

    starts: tuple[int, ...]
    shards: tuple[str, ...]
    planned_at: str
    planned_by: str

    @property
    def parts(self) -> int:
        return len(self.starts)

    def shards_of(self, number: int) -> tuple[str, ...]:
        """Return the shards of a part; parts are numbered from 1."""
        stop = self.starts[number] if number < self.parts else len(self.shards)
        return self.shards[self.starts[number - 1] : stop]


def scan_folders(plan: PartPlan, number: int) -> ScanFolders:
    """Return the folders of the scans of a part."""
    division = json.dumps([plan.starts, plan.shards]).encode("ascii")
    return ScanFolders(hashlib.sha256(division).hexdigest()[:16], str(number))


def divide_shards(shards: Sequence[FileInfo], parts: int) -> PartPlan:
    """Divide shards into runs of neighbours of about the same size in bytes.

    >>> shards = [FileInfo(name=name, size_bytes=1 << 30, mtime_ns=0) for name in "abc"]
    >>> plan = divide_shards(shards, 2)
    >>> plan.shards_of(1), plan.shards_of(2)
    (('a',), ('b', 'c'))
    """
    total = sum(shard.size_bytes + _BYTES_PER_SHARD for shard in shards)
    counts, before = [0] * parts, 0
    for shard in shards:
        weight = shard.size_bytes + _BYTES_PER_SHARD
        counts[(2 * before + weight) * parts // (2 * total)] += 1  # the part that has the middle of the shard
        before += weight
    starts = [0]
    for count in counts[:-1]:
        starts.append(starts[-1] + count)
    return PartPlan(
        starts=tuple(starts),
        shards=tuple(shard.name for shard in shards),
        planned_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        planned_by=f"energon-toolkit {__version__}",
    )


def read_part_plan(storage: Storage) -> PartPlan | None:
    """Read the plan of a dataset; return None without one.

    Raises:
        FormatError: It is damaged.
    """
    try:
        plan = msgspec.convert(json.loads(read_document(storage, PART_PLAN)), PartPlan)
        _check(plan)
    except StorageError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return None
        raise
    except (ValueError, msgspec.ValidationError) as error:
        raise FormatError(
            f"the plan of the parts is damaged: {error}",
            shard=storage.path(PART_PLAN),
            hint="remove this file and run all parts again; they keep what is scanned",
        ) from error
    return plan


def _check(plan: PartPlan) -> None:
    if plan.starts[:1] != (0,) or any(left > right for left, right in pairwise([*plan.starts, len(plan.shards)])):
        raise ValueError("its parts do not divide its shards")


def write_part_plan(storage: Storage, plan: PartPlan) -> PartPlan:
    """Write a plan; return the one that counts, which another part may have written before."""
    storage.create_once(PART_PLAN, json.dumps(msgspec.to_builtins(plan)).encode("ascii"))
    written = read_part_plan(storage)
    return plan if written is None else written


def check_not_planned(storage: Storage, *, is_known: bool = True) -> None:
    """Check that no part of a prepare was started.

    Args:
        storage: The dataset.
        is_known: Answer from a listing of it, if there is one; False looks for a plan that was written since.

    Raises:
        ConfigError: There is a plan.
    """
    plan = None if is_known and not storage.exists(PART_PLAN) else read_part_plan(storage)
    if plan is not None:
        raise ConfigError(
            f"this dataset is being prepared in {plan.parts} parts, since {plan.planned_at}",
            at=storage.path(""),
            hint="commit the parts with --merge, which names those that are missing; or give them up: remove"
            f" {storage.path(PART_PLAN)}",
        )
