"""The contract of all stages: a definition that pickles, and an iterator that it opens for each lane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from ...errors import ConfigError
from ...order import worker_share
from .lane import ItemId, Lane
from .state_schema import NotRequired, Schema
from .worker_config import WorkerConfig

__all__ = ["SKIPPED", "Running", "SavableDataset", "State"]

T_co = TypeVar("T_co", covariant=True)

State = dict[str, Any]
"""Plain data: dicts, lists, str, int, float, bool, None."""


class _Skipped:
    """Placeholder for a skipped item, which keeps the positions of later items known."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "SKIPPED"

    def __reduce__(self) -> str:
        return "SKIPPED"  # unpickled as the object of the reading process


SKIPPED: Final = _Skipped()
"""Stages that map items pass it on; stages that join items drop it."""


class Running(Protocol):
    """Iterator of a stage over one lane."""

    def next(self) -> tuple[Any, ItemId]:
        """Return the next item, or :data:`SKIPPED`, and its id.

        Raises:
            StopIteration: The pass is over; raised again by each further call.
        """

    def state(self) -> State:
        """Return the state from which ``open`` resumes: one entry for each stage of the chain that has state."""

    def load(self, item_id: ItemId) -> Any:
        """Rebuild an item that this stage returned before; return :data:`SKIPPED` if it is skipped."""


def _check_same_run(inputs: Sequence[SavableDataset[Any]]) -> None:
    """Check that the inputs were built for the same run.

    Raises:
        ConfigError: Their worker configs distribute the samples in different ways.
    """
    first = inputs[0].worker_config
    for upstream in inputs[1:]:
        for name in ("rank", "world_size", "num_workers", "lanes", "seed_offset"):
            one, other = getattr(first, name), getattr(upstream.worker_config, name)
            if one != other:
                raise ConfigError(
                    f"datasets of one chain have worker configs with {name}={one} and {name}={other}",
                    hint="build all of them with the same WorkerConfig",
                )


class SavableDataset(ABC, Generic[T_co]):
    """The definition of a stage, and through its inputs of the chain below it.

    Args:
        inputs: The stages directly below, in order; none for a reader.
        worker_config: Ranks, workers and lanes of the run; by default those of the first input.
        name: Name of the stage in a printed chain; by default the class's name.
    """

    entry_schema: ClassVar[Schema] = None
    """Schema of the value that :meth:`Running.state` saves under this stage's key; None if it saves none."""

    def __init__(
        self, *inputs: SavableDataset[Any], worker_config: WorkerConfig | None = None, name: str | None = None
    ) -> None:
        if worker_config is None and inputs:
            worker_config = inputs[0].worker_config
            _check_same_run(inputs)
        self.inputs = inputs
        self.worker_config: WorkerConfig = (
            worker_config if worker_config is not None else WorkerConfig.default_worker_config()
        )
        self.name = name or type(self).__name__
        self.depth: int = 1 + max((upstream.depth for upstream in inputs), default=-1)

    @abstractmethod
    def open(self, lane: Lane, state: State) -> Running:
        """Open the chain for a lane.

        Args:
            lane: The lane.
            state: Empty, or the result of :meth:`Running.state` for the same lane of an equal chain.
        """

    @property
    def key(self) -> str:
        """Key of this stage's entry in a state."""
        return f"{self.depth} {self.name}"

    def state_schema(self) -> dict[str, Schema]:
        """Return the schema of :meth:`Running.state`: the entries of this stage and of the stages below.

        Stages that nest the states of their inputs override it.
        """
        schema = {key: entry for upstream in self.inputs for key, entry in upstream.state_schema().items()}
        if self.entry_schema is not None:
            schema[self.key] = NotRequired(self.entry_schema)
        return schema

    @property
    def repeats(self) -> bool:
        """True if the chain has no end."""
        return any(upstream.repeats for upstream in self.inputs)

    @property
    def starts_over(self) -> bool:
        """True if each iteration of a loader starts a new pass, as in validation."""
        return any(upstream.starts_over for upstream in self.inputs)

    @property
    def keeps_positions(self) -> bool:
        """True if each input item makes exactly one item, so that the length of a pass is known in advance."""
        return False

    @property
    def counts_on_rank(self) -> bool:
        """True if a stage of the chain counts the micro-batches of a rank."""
        return any(upstream.counts_on_rank for upstream in self.inputs)

    @property
    def moves_below(self) -> bool:
        """True if the stage maps items one to one, so that it commutes with counting stages and can run in workers."""
        return False

    @property
    def waits(self) -> bool:
        """True if a stage of the chain buffers samples, so that each lane takes memory."""
        return any(upstream.waits for upstream in self.inputs)

    @property
    def runs_user_code(self) -> bool:
        """True if a stage of the chain calls functions that may draw random numbers."""
        return any(upstream.runs_user_code for upstream in self.inputs)

    @property
    def items(self) -> int | None:
        """Number of items of all lanes in one pass; None if it is endless, or not known in advance."""
        return self.inputs[0].items if self.keeps_positions and self.inputs else None

    def nominal_items(self, worker: int, workers: int) -> int:
        """Return the number of items of an epoch on a worker, if each stage makes one item of each input item.

        Args:
            worker: The worker, among those of all ranks.
            workers: Number of these workers.

        Raises:
            TypeError: A stage that reads data does not define its number of items.
        """
        if not self.inputs:
            items = self.items
            if items is None:
                reason = "repeats without end" if self.repeats else "has no number of items"
                raise TypeError(
                    f"the number of micro-batches is not known: {self.name} {reason}, and defines no nominal_items()"
                )
            return worker_share((items,), (1,), worker=worker, workers=workers)
        return sum(upstream.nominal_items(worker, workers) for upstream in self.inputs)

    def settings(self) -> dict[str, Any]:
        """Return the arguments that determine the items and their order, as plain data; a restore compares them."""
        return {}

    def identity(self) -> list[Any]:
        """Describe the chain for comparison with a saved state: name, settings and inputs, as plain data."""
        return [self.name, self.settings(), *(upstream.identity() for upstream in self.inputs)]

    def lines(self) -> Iterator[str]:
        """Yield the lines of the printed chain: this stage, then its inputs, indented."""
        arguments = ", ".join(f"{name}={value}" for name, value in self.settings().items())
        yield f"{self.name}({arguments})"
        for place, upstream in enumerate(self.inputs):
            first = "└─ " if place == len(self.inputs) - 1 else "├─ "
            rest = "   " if place == len(self.inputs) - 1 else "│  "
            for number, line in enumerate(upstream.lines()):
                yield (rest if number else first) + line

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __bool__(self) -> bool:
        return True  # without this Python calls __len__, which may be 0

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a dataset is only the definition of a chain; iterate get_loader(dataset)")

    def __len__(self) -> int:
        """Return the number of micro-batches of this rank in a pass, or in an epoch of an endless dataset.

        The number is exact for passes whose stages neither skip nor regroup samples. Otherwise it is nominal: one item
        of a stage for each of its input items.

        Raises:
            TypeError: A stage that reads data does not define its number of items.
        """
        if self.counts_on_rank:
            return len(self.inputs[0])
        config, items = self.worker_config, self.items
        if items is not None:
            return len(range(config.rank, items, config.world_size))
        own = max(1, config.num_workers)
        first = config.rank * own
        return sum(self.nominal_items(worker, own * config.world_size) for worker in range(first, first + own))
