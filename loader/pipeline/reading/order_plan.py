"""The arguments that decide the order of samples; the order itself follows once the number of lanes is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Protocol

from ...order import FinitePass, PrebatchedPass, RepeatedOrder, SequentialPass, SourceOrder, StreamOrder, mix

__all__ = ["OrderPlan", "SequentialPlan", "ShuffledPlan"]

_SOURCE = 21  # what a random number is for; part of its name


class OrderPlan(Protocol):
    """What a reader knows of the order of its samples."""

    @property
    def repeats(self) -> bool:
        """The order goes on for ever."""

    @property
    def starts_over(self) -> bool:
        """Each iteration begins the pass anew."""

    def order(self, samples: Sequence[int], *, lanes: int, seed: int) -> StreamOrder:
        """Give the order of leaves of so many samples each."""

    def items(self, samples: Sequence[int]) -> int | None:
        """Give how many samples a pass has; None without end."""

    def settings(self) -> dict[str, Any]:
        """Give the arguments as plain data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledPlan:
    """The order of training.

    Args:
        slice_lengths: For each leaf, the neighbouring samples that are read together.
        shuffle_buffer: Samples among which the order is as good as free.
        epochs_together: For each leaf, ``shuffle_over_epochs_multiplier``.
        weights: For each leaf, its share of a blend without end.
        repetitions: For each leaf, how often a sample comes in a pass; None for a blend without end.
        deal: Samples of a micro-batch, where a pass is dealt in whole ones; None gives each lane a stream of its own.
    """

    slice_lengths: tuple[int, ...]
    shuffle_buffer: int
    epochs_together: tuple[int | None, ...]
    weights: tuple[float, ...]
    repetitions: tuple[float, ...] | None = None
    deal: int | None = None

    @property
    def repeats(self) -> bool:
        return self.repetitions is None

    @property
    def starts_over(self) -> bool:
        return False

    def order(self, samples: Sequence[int], *, lanes: int, seed: int) -> StreamOrder:
        return _shuffled(self, tuple(samples), lanes, seed)

    def items(self, samples: Sequence[int]) -> int | None:
        return None if self.repetitions is None else _in_a_pass(samples, self.repetitions)

    def settings(self) -> dict[str, Any]:
        return {name: _shown(value) for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialPlan:
    """The order of validation: the leaves one after another, as their samples lie.

    Args:
        deal: As in :class:`ShuffledPlan`.
    """

    deal: int | None = None

    @property
    def repeats(self) -> bool:
        return False

    @property
    def starts_over(self) -> bool:
        return True

    def order(self, samples: Sequence[int], *, lanes: int, seed: int) -> StreamOrder:  # noqa: ARG002 - not shuffled
        order = SequentialPass(tuple(samples), lanes)
        return order if self.deal is None else PrebatchedPass(order, self.deal)

    def items(self, samples: Sequence[int]) -> int | None:
        return sum(samples)

    def settings(self) -> dict[str, Any]:
        return {} if self.deal is None else {"deal": self.deal}


@lru_cache(maxsize=64)  # all lanes of a process share it
def _shuffled(plan: ShuffledPlan, samples: tuple[int, ...], lanes: int, seed: int) -> StreamOrder:
    sources = tuple(
        SourceOrder(
            samples=count,
            slice_length=length,
            shuffle_buffer=plan.shuffle_buffer,
            epochs_together=together,
            seed=int(mix(seed, _SOURCE, place)),
        )
        for place, (count, length, together) in enumerate(
            zip(samples, plan.slice_lengths, plan.epochs_together, strict=True)
        )
    )
    if plan.repetitions is None:
        return RepeatedOrder(sources, plan.weights, lanes, seed)
    order = FinitePass(sources, plan.repetitions, lanes, seed)
    return order if plan.deal is None else PrebatchedPass(order, plan.deal)


def _in_a_pass(samples: Sequence[int], repetitions: Sequence[float]) -> int:
    total = 0
    for count, times in zip(samples, repetitions, strict=True):
        whole = int(times)
        total += whole * count + round((times - whole) * count)
    return total


def _shown(value: Any) -> Any:
    """Give a tuple of equal values, one for each leaf, as the value."""
    if isinstance(value, tuple):
        return value[0] if len(set(value)) == 1 else list(value)
    return value
