"""The random numbers of a worker, in states of megatron-energon."""

from collections.abc import Sequence
from typing import Any, TypeVar

import torch

from ..errors import StateError
from ..pipeline.contract.worker_config import WorkerConfig

T = TypeVar("T")


class WorkerRng:
    """A generator for one worker, which draws the same numbers in each run with the same ranks and workers.

    Draws depend on the number of workers, and the state of this generator is not part of a loader's state. Hooks
    should draw from the global generators instead, which are seeded for each micro-batch.

    Args:
        worker_config: Ranks and workers of the run; its ``worker_seed()`` seeds the generator on first use.
    """

    def __init__(self, worker_config: WorkerConfig) -> None:
        self.worker_config = worker_config
        self._rng: torch.Generator | None = None

    @property
    def rng(self) -> torch.Generator:
        """The generator of torch."""
        if self._rng is None:
            self._rng = torch.Generator().manual_seed(self.worker_config.worker_seed())
        return self._rng

    def randbelow(self, n: int) -> int:
        """Return an integer in ``[0, n)``."""
        return int(torch.randint(0, n, (), generator=self.rng))

    def choice_idx(self, probs: torch.Tensor) -> int:
        """Return an index of ``probs``, drawn with these probabilities, which sum to 1."""
        if len(probs) == 1:
            return 0
        index = int(torch.searchsorted(probs.cumsum(0), torch.rand(1, generator=self.rng)))
        return min(index, len(probs) - 1)  # rounded probabilities may sum to less than 1

    def choice(self, l: Sequence[T], probs: torch.Tensor | None = None) -> T:  # noqa: E741 - the name callers may pass
        """Return an element, drawn with equal probabilities or with ``probs``."""
        return l[self.randbelow(len(l)) if probs is None else self.choice_idx(probs)]

    def shuffle(self, l: Sequence[T]) -> list[T]:  # noqa: E741 - as above
        """Return a shuffled copy."""
        return [l[index] for index in torch.randperm(len(l), generator=self.rng).tolist()]

    def rand_pop(self, l: list[T]) -> T:  # noqa: E741 - as above
        """Remove an element, and return it."""
        return l.pop(self.randbelow(len(l)))

    def save_state(self) -> dict[str, bytes]:
        """Return the state of the generator as bytes below the name ``rng``."""
        return {"rng": bytes(self.rng.get_state().numpy())}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Restore the generator to a saved state; ``{"rng": None}`` restores the seed.

        Raises:
            StateError: The state is not one of :meth:`save_state`.
        """
        if state.keys() != {"rng"} or not isinstance(state["rng"], bytes | None):
            raise StateError("expected the state of a WorkerRng", hint="pass the result of WorkerRng.save_state()")
        self._rng = None
        if state["rng"] is not None:
            self._rng = torch.Generator()
            self._rng.set_state(torch.frombuffer(bytearray(state["rng"]), dtype=torch.uint8))
