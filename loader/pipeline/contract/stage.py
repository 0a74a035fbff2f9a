"""The contract of all stages: a definition that pickles, opened for a lane into a running iterator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from ...errors import ConfigError
from .lane import ItemId, Lane
from .state_schema import NotRequired, Schema
from .worker_config import WorkerConfig

__all__ = ["SKIPPED", "Running", "SavableDataset", "State"]

T_co = TypeVar("T_co", covariant=True)

State = dict[str, Any]
"""Plain data: dicts, lists, str, int, float, bool, None."""


class _Skipped:
    """What a stage gives in place of an item that was left out, so that positions stay known."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "SKIPPED"

    def __reduce__(self) -> str:
        return "SKIPPED"  # the one of the process that reads it


SKIPPED: Final = _Skipped()
"""Stages pass it on; what joins items leaves it out."""


class Running(Protocol):
    """A stage at work on one lane."""

    def next(self) -> tuple[Any, ItemId]:
        """Give the next item, or :data:`SKIPPED`, and what names it.

        Raises:
            StopIteration: The pass is over; again at each further call.
        """

    def state(self) -> State:
        """Give what ``open`` needs to go on here, one entry for each stage of the chain that has something to keep."""

    def load(self, item_id: ItemId) -> Any:
        """Make an item again that this stage gave before, or :data:`SKIPPED`."""


def _check_spread(inputs: Sequence[SavableDataset[Any]]) -> None:
    """Refuse datasets that were built for different runs.

    Raises:
        ConfigError: Their worker configs differ in what decides who reads what.
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
    """The definition of a stage, and by its sources of the chain up to it.

    Args:
        sources: The stages below, in order; none for a reader.
        worker_config: How the run is spread; by default that of the first source.
        name: What the stage is called in a printed chain; by default the class's name.
    """

    entry_schema: ClassVar[Schema] = None
    """Schema of the value that :meth:`Running.state` saves under this stage's key; None if it saves none."""

    def __init__(
        self, *inputs: SavableDataset[Any], worker_config: WorkerConfig | None = None, name: str | None = None
    ) -> None:
        if worker_config is None and inputs:
            worker_config = inputs[0].worker_config
            _check_spread(inputs)
        self.inputs = inputs
        self.worker_config: WorkerConfig = (
            worker_config if worker_config is not None else WorkerConfig.default_worker_config()
        )
        self.name = name or type(self).__name__
        self.depth: int = 1 + max((upstream.depth for upstream in inputs), default=-1)

    @abstractmethod
    def open(self, lane: Lane, state: State) -> Running:
        """Start the chain for a lane.

        Args:
            lane: The lane.
            state: Empty, or what :meth:`Running.state` gave for the same lane of an equal chain.
        """

    @property
    def key(self) -> str:
        """The name of this stage's entry in a state."""
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
        """The chain goes on for ever."""
        return any(upstream.repeats for upstream in self.inputs)

    @property
    def starts_over(self) -> bool:
        """Each iteration of a loader begins the pass anew, as validation does."""
        return any(upstream.starts_over for upstream in self.inputs)

    @property
    def keeps_positions(self) -> bool:
        """Every input gives one output at its place, so that the pass is known ahead of it."""
        return False

    @property
    def counts_on_rank(self) -> bool:
        """Some stage of the chain counts the micro-batches of a rank."""
        return any(upstream.counts_on_rank for upstream in self.inputs)

    @property
    def moves_below(self) -> bool:
        """It takes each item by itself, so that it may as well stand below a stage that only counts."""
        return False

    @property
    def waits(self) -> bool:
        """Samples wait in a buffer somewhere in the chain, so that each lane costs memory."""
        return any(upstream.waits for upstream in self.inputs)

    @property
    def runs_user_code(self) -> bool:
        """Some stage calls functions that may draw random numbers."""
        return any(upstream.runs_user_code for upstream in self.inputs)

    @property
    def items(self) -> int | None:
        """How many items all lanes give in one pass; None where that is not known ahead, or without end."""
        return self.inputs[0].items if self.keeps_positions and self.inputs else None

    def settings(self) -> dict[str, Any]:
        """Give the arguments that decide which items come in which order: plain data, compared on restoring."""
        return {}

    def identity(self) -> list[Any]:
        """Describe the chain for comparison with a saved state: names, settings and sources, as plain data."""
        return [self.name, self.settings(), *(upstream.identity() for upstream in self.inputs)]

    def lines(self) -> Iterator[str]:
        """Give the lines of the printed chain: this stage, and below it what it takes from."""
        said = ", ".join(f"{name}={value}" for name, value in self.settings().items())
        yield f"{self.name}({said})"
        for place, upstream in enumerate(self.inputs):
            first = "└─ " if place == len(self.inputs) - 1 else "├─ "
            others = "   " if place == len(self.inputs) - 1 else "│  "
            for number, line in enumerate(upstream.lines()):
                yield (others if number else first) + line

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __bool__(self) -> bool:
        return True  # Python would ask for the length, which not all have

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a dataset is only the definition of a chain; iterate get_loader(dataset)")

    def __len__(self) -> int:
        """Give the number of micro-batches for this rank in a pass.

        Raises:
            TypeError: The dataset repeats without end, or stages drop or regroup samples.
        """
        if self.counts_on_rank:
            return len(self.inputs[0])
        items = self.items
        if items is None:
            reason = (
                "it repeats without end, unless repeat=False or a virtual_epoch_length ends it"
                if self.repeats
                else "its stages may leave samples out or regroup them"
            )
            raise TypeError(f"the number of micro-batches is not known: {reason}")
        return len(range(self.worker_config.rank, items, self.worker_config.world_size))
