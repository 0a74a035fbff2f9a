"""Check that all parts of a prepare are complete."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ...errors import ConfigError
from ...storage import Storage
from .part_plan import read_part_plan
from .share import Part, format_numbers

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
