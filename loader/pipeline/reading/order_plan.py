"""Order plans: the arguments of an order, before the number of lanes is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Protocol

from ...order import FinitePass, PrebatchedPass, RepeatedOrder, SequentialPass, SourceOrder, StreamOrder, mix

__all__ = ["OrderPlan", "SequentialPlan", "ShuffledPlan"]

_SOURCE = 21  # purpose of the random numbers: part of their seed


class OrderPlan(Protocol):
    """The order of a reader's samples."""

    @property
    def repeats(self) -> bool:
        """True if the order has no end."""

    @property
    def starts_over(self) -> bool:
        """True if each iteration starts a new pass."""

    def order(self, samples: Sequence[int], *, lanes: int, seed: int) -> StreamOrder:
        """Return the order of sources with these numbers of samples."""

    def items(self, samples: Sequence[int]) -> int | None:
        """Return the number of samples of a pass; None without end."""

    def settings(self) -> dict[str, Any]:
        """Return the arguments as plain data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledPlan:
    """The order of training.

    Args:
        slice_lengths: Length of a slice, for each source.
        shuffle_buffer: Number of samples that are shuffled freely.
        epochs_together: ``shuffle_over_epochs_multiplier``, for each source.
        weights: Share of a blend without end, for each source.
        repetitions: Repetitions of a sample in a pass, for each source; None for a blend without end.
        deal: Samples of a micro-batch, if the lanes take whole micro-batches of one pass in turn; None splits the pass
            into one stream per lane.
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
        return None if self.repetitions is None else _pass_samples(samples, self.repetitions)

    def settings(self) -> dict[str, Any]:
        return {name: _collapsed(value) for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialPlan:
    """The order of validation: the sources one after another, in the order of their shards.

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


@lru_cache(maxsize=64)  # shared by all lanes of a process
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


def _pass_samples(samples: Sequence[int], repetitions: Sequence[float]) -> int:
    total = 0
    for count, times in zip(samples, repetitions, strict=True):
        whole = int(times)
        total += whole * count + round((times - whole) * count)
    return total


def _collapsed(value: Any) -> Any:
    """Replace a tuple of equal values, one for each source, by the value."""
    if isinstance(value, tuple):
        return value[0] if len(set(value)) == 1 else list(value)
    return value
