"""Shares of one job: which share of how many a process does."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from ..errors import ConfigError, plural

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


BYTES_PER_SHARD = 1 << 20  # opening a shard takes as long as reading about so many bytes

_EXPECTED = "expected SHARE/SHARES with 1 ≤ SHARE ≤ SHARES, such as 3/64, or auto"
_MAX_SHARES = 1_000_000
_NAME_THE_SHARE = "name the share: --share 3/64"


@dataclass(frozen=True, slots=True)
class Share:
    """One share of a job.

    >>> str(Share(3, 64))
    '3/64'
    """

    number: int  # from 1
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def parse_share(text: str, environ: Mapping[str, str]) -> Share:
    """Parse ``3/64``, or take the share from the variables of a cluster for ``auto``.

    In a SLURM array whose tasks run several processes by ``srun``, each process has a share. Without an array, the
    innermost launcher counts, as for ranks of training: ``srun``, torchrun, MPI or PMI.

    >>> parse_share("3/64", {}), parse_share("auto", {"RANK": "0", "WORLD_SIZE": "8"})
    (Share(number=3, count=64), Share(number=1, count=8))
    """
    if text == "auto":
        return _share_of_environment(environ)
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    share = Share(int(match[1]), int(match[2])) if match else Share(0, 0)
    if not 1 <= share.number <= share.count <= _MAX_SHARES:
        raise ConfigError(f"{_EXPECTED}; found {text!r}")
    return share


def _share_of_environment(environ: Mapping[str, str]) -> Share:
    try:
        if environ.get("SLURM_ARRAY_TASK_ID"):
            return _share_of_step(environ, _share_of_array(environ))
        launched = launched_rank(environ)
    except ConfigError as error:
        error.hint = error.hint or _NAME_THE_SHARE
        raise
    if launched is None:
        raise ConfigError(
            "auto needs SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT, or the variables that torchrun, mpirun or srun"
            " set for each process; none of them is set",
            hint=_NAME_THE_SHARE,
        )
    return Share(launched.rank + 1, launched.world_size)


def _share_of_array(environ: Mapping[str, str]) -> Share:
    """Return the share of a task of a SLURM array, whose ids may start and step as the user likes."""
    task, count = number_in(environ, "SLURM_ARRAY_TASK_ID"), number_in(environ, "SLURM_ARRAY_TASK_COUNT")
    first = number_in(environ, "SLURM_ARRAY_TASK_MIN", default=1)
    step = max(1, number_in(environ, "SLURM_ARRAY_TASK_STEP", default=1))
    last = number_in(environ, "SLURM_ARRAY_TASK_MAX", default=first + (count - 1) * step)
    index, rest = divmod(task - first, step)
    if rest or not 0 <= index < count or last != first + (count - 1) * step:
        raise ConfigError(
            f"the ids of this SLURM array are no range: {plural(count, 'task')} from {first} to {last}; this: {task}",
            hint='use the ids as numbers of shares: --array=1-64 and --share "$SLURM_ARRAY_TASK_ID/64"',
        )
    return Share(index + 1, count)


def _share_of_step(environ: Mapping[str, str], array: Share) -> Share:
    """Return the share of a process that ``srun`` starts with others in a task of an array."""
    for names in _names_of_step(environ):
        if _is_set(environ, *names):
            rank, size, _ = _rank_in(environ, *names)
            return Share((array.number - 1) * size + rank + 1, array.count * size)
    return array


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


def items_of(share: Share, starts: Sequence[int], total: int) -> range:
    """Return the items of a share.

    Args:
        starts: Number of the first item of each share.
        total: Number of all items.

    >>> items_of(Share(2, 2), (0, 2), 5)
    range(2, 5)
    """
    return range(starts[share.number - 1], [*starts, total][share.number])


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


COMMAND_LINE: ContextVar[Callable[[], tuple[str, ...]] | None] = ContextVar("energon_command_line", default=None)
"""Returns the command line of this process, as quoted words without secrets; None for a program with the library."""

_SHARE_FLAGS = ("--share", "--part")


def command_with(options: str, *, command: str) -> str:
    """Return the command line of this process with other options instead of its ``--share`` or ``--merge``.

    Args:
        command: The command of a program that uses the library.
    """
    typed = COMMAND_LINE.get()
    words = [*typed()] if typed is not None else ["energon", command]
    end = words.index("--") if "--" in words else len(words)
    before = words[:end]
    for index in reversed(range(end)):
        flag, equals, _ = before[index].partition("=")
        if flag in (*_SHARE_FLAGS, "--merge"):
            del before[index : index + (2 if flag in _SHARE_FLAGS and not equals else 1)]
    return " ".join([*before, options, *words[end:]])


def incomplete_shares(
    missing: Iterable[int], starts: Sequence[int], *, what: str, command: Callable[[str], str], at: str
) -> ConfigError:
    """Return the error of a merge that names the shares to run.

    Args:
        missing: Numbers of the items without results.
        starts: Number of the first item of each share.
        what: The reason, for the message.
        command: Returns the command line of a share for its option.
        at: Where results are expected.
    """
    shares, count = sorted({bisect_right(starts, item) for item in missing}), len(starts)
    names, is_single = format_numbers(shares), len(shares) == 1
    return ConfigError(
        f"{f'share {names} of {count} is' if is_single else f'shares {names} of {count} are'} not complete: {what}",
        at=at,
        hint=f"run {'it' if is_single else 'them'}, then merge again:"
        f" {command(f'--share {Share(shares[0], count)}')}"
        + ("" if is_single else f" (with SLURM: sbatch --array={names}, and --share $SLURM_ARRAY_TASK_ID/{count})"),
    )
