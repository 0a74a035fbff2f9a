"""The number of a part and of all parts, as a flag or as the environment of a cluster names it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...errors import ConfigError
from ...storage import Storage
from .launched_rank import launched_rank, number_in
from .part_plan import read_part_plan

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

    Args:
        text: The text.
        environ: The environment variables.

    Raises:
        ConfigError: The text or a variable is wrong, or there is no variable.

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
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(start) if start == stop else f"{start}-{stop}" for start, stop in ranges)


# Check that all parts of a prepare are complete.


_MAX_SHARDS = 5  # in a message


def check_complete(storage: Storage, unscanned: Sequence[str]) -> None:
    """Check that each shard of the plan was scanned.

    Args:
        storage: The dataset.
        unscanned: Shards without a scan; those that arrived after the plan are no fault.

    Raises:
        ConfigError: Shards of the plan are among them, or there is no plan; the message names the parts to run.
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
    missing = frozenset(unscanned)
    found = {
        number: [name for name in plan.shards_of(number) if name in missing] for number in range(1, plan.parts + 1)
    }
    names = [name for shards in found.values() for name in shards]
    if not names:
        return
    numbers = [number for number, shards in found.items() if shards]
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
