"""How many micro-batches make a step, where neither megatron-core nor Apex is there to say.

The names and meanings are those of ``megatron.core.num_microbatches_calculator``, so that code written for that runs
with this one in its place. With ``rampup_batch_size`` the batch of a step grows with the samples that were consumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..errors import ConfigError

__all__ = [
    "BatchRamp",
    "get_current_global_batch_size",
    "get_num_microbatches",
    "init_num_microbatches_calculator",
    "tell_consumed_samples",
    "unset_num_microbatches_calculator",
    "update_num_microbatches",
]

_OF_FRAMEWORKS = ("megatron.core.num_microbatches_calculator", "apex.transformer.pipeline_parallel.utils")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRamp:
    """The samples of a step, as a function of those consumed before it.

    Args:
        global_batch_size: Samples of a step on all ranks, once it has grown.
        micro_batch_size: Samples of a micro-batch.
        data_parallel_size: Ranks that get different data.
        rampup_batch_size: What it starts with, by how much it grows, and the samples over which it does.

    Raises:
        ConfigError: Some batch on the way is no multiple of what all ranks take at once.

    >>> ramp = BatchRamp(global_batch_size=32, micro_batch_size=2, data_parallel_size=4, rampup_batch_size=(8, 8, 300))
    >>> [ramp.batch_size(consumed) for consumed in (0, 99, 100, 200, 300)]
    [8, 8, 16, 24, 32]
    >>> ramp.num_microbatches(200)
    3
    """

    global_batch_size: int
    micro_batch_size: int
    data_parallel_size: int = 1
    rampup_batch_size: Sequence[int] | None = None

    def __post_init__(self) -> None:
        at_once = self.micro_batch_size * self.data_parallel_size
        if at_once < 1:
            raise ConfigError(
                f"expected micro_batch_size and data_parallel_size of at least 1, found {self.micro_batch_size} and "
                f"{self.data_parallel_size}"
            )
        sizes = [self.global_batch_size]
        if self.rampup_batch_size is not None:
            start, increment, samples = self._ramp()
            steps, rest = divmod(self.global_batch_size - start, increment) if increment > 0 else (-1, 0)
            if start < 1 or steps < 0 or rest or samples < 0:
                raise ConfigError(
                    f"expected rampup_batch_size to grow in equal steps to global_batch_size={self.global_batch_size}, "
                    f"found a start of {start}, an increment of {increment} and {samples} samples"
                )
            sizes += [start, increment]
        if any(size < 1 or size % at_once for size in sizes):
            raise ConfigError(
                f"expected the samples of a step to be a multiple of the {at_once} that {self.data_parallel_size} "
                f"ranks take at once in micro-batches of {self.micro_batch_size}; found {' and '.join(map(str, sizes))}"
            )

    def _ramp(self) -> tuple[int, int, int]:
        try:
            start, increment, samples = self.rampup_batch_size or ()
        except ValueError:
            raise ConfigError(
                "expected rampup_batch_size to be three numbers (start, increment, samples), found "
                f"{self.rampup_batch_size}"
            ) from None
        return int(start), int(increment), int(samples)

    def batch_size(self, consumed_samples: int) -> int:
        """Give the samples of the step that follows so many consumed ones."""
        if self.rampup_batch_size is None:
            return self.global_batch_size
        start, increment, samples = self._ramp()
        steps = (self.global_batch_size - start) // increment
        if not steps or consumed_samples >= samples:
            return self.global_batch_size
        return start + consumed_samples * steps // samples * increment

    def num_microbatches(self, consumed_samples: int) -> int:
        """Give the micro-batches that each rank takes in that step."""
        return self.batch_size(consumed_samples) // (self.micro_batch_size * self.data_parallel_size)

    def consumed_after(self, steps: int, *, consumed_samples: int = 0) -> int:
        """Give the samples that are consumed after so many more steps."""
        while steps and self.batch_size(consumed_samples) != self.global_batch_size:
            consumed_samples += self.batch_size(consumed_samples)
            steps -= 1
        return consumed_samples + steps * self.global_batch_size


@dataclass(slots=True)
class _Current:
    """What the functions of this module answer from, as callers expect that know Megatron's by their names."""

    ramp: BatchRamp | None = None
    consumed_samples: int = 0


_current = _Current()


def init_num_microbatches_calculator(
    rank: int,  # noqa: ARG001 - Megatron's logs on rank 0 only; this one does not log
    rampup_batch_size: Sequence[int] | None,
    global_batch_size: int,
    micro_batch_size: int,
    data_parallel_size: int,
) -> None:
    """Say how large steps are, for this process.

    Args:
        rank: Not used.
        rampup_batch_size: As in :class:`BatchRamp`, like all others.

    Raises:
        ConfigError: As there.
    """
    _current.ramp = BatchRamp(
        global_batch_size=global_batch_size,
        micro_batch_size=micro_batch_size,
        data_parallel_size=data_parallel_size,
        rampup_batch_size=rampup_batch_size,
    )
    _current.consumed_samples = 0


def unset_num_microbatches_calculator() -> None:
    """Forget what was said."""
    _current.ramp = None
    _current.consumed_samples = 0


def update_num_microbatches(
    consumed_samples: int,
    consistency_check: bool = True,  # noqa: ARG001 - every size on the ramp is checked when it is set up
    verbose: bool = False,  # noqa: ARG001
) -> None:
    """Say how many samples the run has consumed.

    Args:
        consumed_samples: On all ranks.
        consistency_check: Not used: all sizes were checked at the beginning.
        verbose: Not used.
    """
    _current.consumed_samples = consumed_samples


def get_num_microbatches() -> int:
    """Give the micro-batches that each rank takes in the next step.

    Raises:
        ConfigError: Nobody has said how large steps are.
    """
    return _ramp().num_microbatches(_current.consumed_samples)


def get_current_global_batch_size() -> int:
    """Give the samples of the next step, on all ranks.

    Raises:
        ConfigError: Nobody has said how large steps are.
    """
    return _ramp().batch_size(_current.consumed_samples)


def _ramp() -> BatchRamp:
    if _current.ramp is None:
        raise ConfigError(
            "it was not said how many micro-batches make a step",
            hint="call init_num_microbatches_calculator() first",
        )
    return _current.ramp


def tell_consumed_samples(consumed_samples: int) -> None:
    """Call ``update_num_microbatches`` of megatron-core if that can be imported, else of Apex, else of this module.

    Args:
        consumed_samples: By the run, on all ranks.
    """
    for name in _OF_FRAMEWORKS:
        try:
            module: Any = import_module(name)
        except ImportError:
            continue
        # Where it is installed and not set up, nobody asks it, and telling it would fail.
        if getattr(module, "_GLOBAL_NUM_MICROBATCHES_CALCULATOR", module) is not None:
            module.update_num_microbatches(consumed_samples=consumed_samples, consistency_check=False)
        return
    update_num_microbatches(consumed_samples=consumed_samples, consistency_check=False)
