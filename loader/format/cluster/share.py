"""Prepare in parts: the plan which part scans which shards, and the part that a flag or a cluster's environment names.

The first part writes the plan, once, so that all parts agree even if shards arrive meanwhile. The commit removes it.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from ...errors import ConfigError, FormatError, StorageError
from ...storage import FileInfo, Storage, read_document
from ...version import __version__
from ..index.journal import ScanFolders
from ..nv_meta import WORK_FOLDER

_TORCHRUN = ("RANK", "WORLD_SIZE")
_MPI = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
_STEP_ID, _STEP_RANK, _STEP_SIZES = "SLURM_STEP_ID", "SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
_MAX_STEP_ID = 0xFFFFFFEF  # of steps that users start; batch scripts, interactive shells and prologs have higher ones


class LaunchedRank(NamedTuple):
    """A rank of several processes that a launcher started, or of a single one.

    >>> print(launched_rank({"RANK": "3", "WORLD_SIZE": "8"}))
    rank 3 of 8 (RANK=3, WORLD_SIZE=8)
    """

    rank: int
    world_size: int
    variables: str  # the variables that show it, with their values

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world_size} ({self.variables})"


def launched_rank(environ: Mapping[str, str]) -> LaunchedRank | None:
    """Return the rank that a launcher gave to this process; None if no launcher started it.

    >>> launched_rank({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"})  # a batch script, without srun
    """
    if _is_set(environ, *_TORCHRUN):
        return _rank_in(environ, *_TORCHRUN)
    single = None
    for names in (*_MPI, *_names_of_step(environ)):
        if _is_set(environ, *names):
            rank = _rank_in(environ, *names)
            if rank.world_size > 1:
                return rank
            single = single or rank
    if single is None and environ.get("WORLD_SIZE", "1") not in ("", "1"):
        raise ConfigError(f"expected RANK next to WORLD_SIZE={environ['WORLD_SIZE']}, found none")
    if single is None and environ.get("PMIX_RANK", "0") not in ("", "0"):  # an interactive shell has rank 0 of one
        raise ConfigError(f"expected the number of ranks next to PMIX_RANK={environ['PMIX_RANK']}, found none")
    return single


def _names_of_step(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    step = environ.get(_STEP_ID, "")
    if not (step.isascii() and step.isdecimal() and int(step) <= _MAX_STEP_ID):
        return []
    return [(_STEP_RANK, size) for size in _STEP_SIZES if environ.get(size)][:1]


def _is_set(environ: Mapping[str, str], *names: str) -> bool:
    return all(environ.get(name) for name in names)


def _rank_in(environ: Mapping[str, str], rank: str, size: str) -> LaunchedRank:
    launched = LaunchedRank(
        number_in(environ, rank), number_in(environ, size), f"{rank}={environ[rank]}, {size}={environ[size]}"
    )
    if launched.rank >= launched.world_size:
        raise ConfigError(f"expected {rank} below {size}, found {environ[rank]} and {environ[size]}")
    return launched


def number_in(environ: Mapping[str, str], name: str, *, default: int | None = None) -> int:
    """Return the number in a variable.

    Args:
        default: The result if the variable is empty or not set; None: that is an error.
    """
    text = environ.get(name, "")
    if not text and default is not None:
        return default
    if not (text.isascii() and text.isdecimal()):
        raise ConfigError(f"expected a number in {name}, found {text!r}")
    return int(text)


PART_PLAN = f"{WORK_FOLDER}/parts.json"
_BYTES_PER_SHARD = 1 << 20  # opening a shard takes as long as scanning about so many bytes


class PartPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The shards of each part."""

    starts: tuple[int, ...]  # number of the first shard of each part
    shards: tuple[str, ...]  # names of the shards, in the order of the dataset
    planned_at: str  # time in UTC
    planned_by: str

    @property
    def parts(self) -> int:
        return len(self.starts)

    def shards_of(self, part: int) -> tuple[str, ...]:
        """Return the shards of a part; parts are numbered from 1."""
        stop = self.starts[part] if part < self.parts else len(self.shards)
        return self.shards[self.starts[part - 1] : stop]


def scan_folders(plan: PartPlan, part: int) -> ScanFolders:
    """Return the folders of the scans of a part."""
    division = json.dumps([plan.starts, plan.shards]).encode("ascii")
    return ScanFolders(hashlib.sha256(division).hexdigest()[:16], str(part))


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
    """Read the plan of a dataset; return None without one."""
    try:
        plan = msgspec.convert(json.loads(read_document(storage, PART_PLAN)), PartPlan)
        if plan.starts[:1] != (0,) or any(start > stop for start, stop in pairwise([*plan.starts, len(plan.shards)])):
            raise ValueError("its parts do not divide its shards")  # noqa: TRY301 - as a damaged document
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


def write_part_plan(storage: Storage, plan: PartPlan) -> PartPlan:
    """Write a plan; return the one that counts, which another part may have written before."""
    storage.create_once(PART_PLAN, json.dumps(msgspec.to_builtins(plan)).encode("ascii"))
    written = read_part_plan(storage)
    return plan if written is None else written


def check_not_planned(storage: Storage, *, is_known: bool = True) -> None:
    """Check that no part of a prepare was started.

    Args:
        is_known: Answer from a listing of it, if there is one; False looks for a plan that was written since.
    """
    plan = None if is_known and not storage.exists(PART_PLAN) else read_part_plan(storage)
    if plan is not None:
        raise ConfigError(
            f"this dataset is being prepared in {plan.parts} parts, since {plan.planned_at}",
            at=storage.path(""),
            hint="commit the parts with --merge, which names those that are missing; or give them up: remove"
            f" {storage.path(PART_PLAN)}",
        )


_EXPECTED = "expected PART/PARTS with 1 ≤ PART ≤ PARTS, such as 3/64, or auto"
_MAX_PARTS = 1_000_000
_NAME_THE_PART = "name the part: --part 3/64"


class Part(NamedTuple):
    """One part of a prepare.

    >>> str(Part(3, 64))
    '3/64'
    """

    number: int  # from 1
    parts: int

    def __str__(self) -> str:
        return f"{self.number}/{self.parts}"


def parse_part(text: str, environ: Mapping[str, str]) -> Part:
    """Parse ``3/64``, or take the part from the variables of a cluster for ``auto``.

    >>> parse_part("3/64", {}), parse_part("auto", {"RANK": "0", "WORLD_SIZE": "8"})
    (Part(number=3, parts=64), Part(number=1, parts=8))
    """
    if text == "auto":
        return _part_of_environment(environ)
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    part = Part(int(match[1]), int(match[2])) if match else Part(0, 0)
    if not 1 <= part.number <= part.parts <= _MAX_PARTS:
        raise ConfigError(f"{_EXPECTED}; found {text!r}")
    return part


def _part_of_environment(environ: Mapping[str, str]) -> Part:
    try:
        if environ.get("SLURM_ARRAY_TASK_ID"):
            return _part_of_array(environ)
        launched = launched_rank(environ)
    except ConfigError as error:
        error.hint = error.hint or _NAME_THE_PART
        raise
    if launched is None:
        raise ConfigError(
            "auto needs SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT, or the variables that torchrun, mpirun or srun"
            " set for each process; none of them is set",
            hint=_NAME_THE_PART,
        )
    return Part(launched.rank + 1, launched.world_size)


def _part_of_array(environ: Mapping[str, str]) -> Part:
    """Return the part of a task of a SLURM array, whose ids may start and step as the user likes."""
    task, count = number_in(environ, "SLURM_ARRAY_TASK_ID"), number_in(environ, "SLURM_ARRAY_TASK_COUNT")
    first = number_in(environ, "SLURM_ARRAY_TASK_MIN", default=1)
    step = max(1, number_in(environ, "SLURM_ARRAY_TASK_STEP", default=1))
    last = number_in(environ, "SLURM_ARRAY_TASK_MAX", default=first + (count - 1) * step)
    index, rest = divmod(task - first, step)
    if rest or not 0 <= index < count or last != first + (count - 1) * step:
        raise ConfigError(
            f"the ids of this SLURM array are no range: {count} tasks from {first} to {last}, this one is {task}",
            hint='use the ids as numbers of parts: --array=1-64 and --part "$SLURM_ARRAY_TASK_ID/64"',
        )
    return Part(index + 1, count)


def format_numbers(numbers: Iterable[int]) -> str:
    """Format increasing numbers as SLURM's ``--array`` takes them.

    >>> format_numbers([3, 17, 18, 19])
    '3,17-19'
    """
    ranges: list[list[int]] = []
    for part in numbers:
        if ranges and part == ranges[-1][1] + 1:
            ranges[-1][1] = part
        else:
            ranges.append([part, part])
    return ",".join(str(start) if start == stop else f"{start}-{stop}" for start, stop in ranges)


# Check that all parts of a prepare are complete.


_MAX_SHARDS = 5  # in a message


def check_complete(storage: Storage, unscanned: Sequence[str]) -> None:
    """Check that each shard of the plan was scanned.

    Args:
        unscanned: Shards without a scan; those that arrived after the plan are no fault.
    """
    plan, url = read_part_plan(storage), shlex.quote(storage.url)
    if plan is None:
        if not unscanned:
            return
        raise ConfigError(
            f"there are no parts to merge: {len(unscanned):,} shards are not scanned, and no part was started",
            at=storage.path(""),
            hint=f"run the parts first: energon prepare {url} --part 1/64, and so on",
        )
    # Find the parts with shards that are not scanned.
    missing = frozenset(unscanned)
    missing_by_part = {
        part: [name for name in plan.shards_of(part) if name in missing] for part in range(1, plan.parts + 1)
    }
    names = [name for shards in missing_by_part.values() for name in shards]
    if not names:
        return
    # Name them, and the command that runs the first one.
    numbers = [part for part, shards in missing_by_part.items() if shards]
    which = (
        f"part {numbers[0]} of {plan.parts} is"
        if len(numbers) == 1
        else (f"parts {format_numbers(numbers)} of {plan.parts} are")
    )
    shown = ", ".join(names[:_MAX_SHARDS]) + (", …" if len(names) > _MAX_SHARDS else "")
    raise ConfigError(
        f"{which} not complete: {len(names):,} of {len(plan.shards):,} shards are not scanned: {shown}",
        at=storage.path(""),
        hint=f"run {'it' if len(numbers) == 1 else 'them'}, then merge again:"
        f" energon prepare {url} --part {Part(numbers[0], plan.parts)}"
        + (f" (with SLURM: sbatch --array={format_numbers(numbers)})" if len(numbers) > 1 else "")
        + "; a part names shards that are damaged",
    )
