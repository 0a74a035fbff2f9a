"""The contract of all stages: a definition that pickles, and an iterator that it opens for each lane."""

from __future__ import annotations

import sys
from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, NotRequired, TypeVar

from ...errors import ConfigError, escape_controls, plural
from ...order import worker_share
from ...own_names import is_own
from ..failures.error_handlers import joined_names
from .dataset_methods import DatasetMethods, T_co, inherits_stage, inner_datasets
from .iterated import UserRunning, warn_once
from .lane import Lane
from .running import SKIPPED, Running, StageTraits, State
from .state_schema import COUNT, RANKS, Schema, saved_dict
from .worker_config import WorkerConfig

__all__ = [
    "SKIPPED",
    "IteratedDataset",
    "Running",
    "SavableDataset",
    "StageTraits",
    "State",
    "as_stage",
    "has_end",
    "register_with_torch",
    "stage_property",
]

T = TypeVar("T")

_FOR_USERS = ("can_restore_sample", "config", "dataset", "restore_sample", "restore_state", "save_state")
"""What ``dir()`` of a dataset lists besides its attributes; the other methods are the contract between stages."""

if TYPE_CHECKING:
    stage_property = property
else:

    class stage_property:  # noqa: N801 - used as property is
        """Property that an attribute of the same name replaces: users' subclasses have ``self.items = []``."""

        def __init__(self, getter: Callable[[Any], Any]) -> None:
            self._getter = getter
            self.__doc__ = getter.__doc__

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            return self if instance is None else self._getter(instance)


_OF_A_RUN = ("rank", "world_size", "num_workers", "lanes", "seed_offset")
"""The arguments of a worker config that the datasets of a chain share."""


class SavableDataset(DatasetMethods[T_co], ABC):
    """The definition of a stage, and through its inputs of the chain below it.

    Args:
        inputs: The stages directly below, in order; none for a reader.
        worker_config: Ranks, workers and lanes of the run; by default as for the first input. Subclasses written for
            megatron-energon pass it as the only positional argument.
        name: Name of the stage in a printed chain; by default the class's name.

    >>> chain = get_train_dataset("photos", batch_size=2)
    >>> isinstance(chain, SavableDataset)
    True
    """

    read_sources: Sequence[Any] = ()
    """The datasets on disk that a reader reads: :class:`.Source` objects."""

    def __init__(
        self,
        *inputs: SavableDataset[Any] | WorkerConfig,
        worker_config: WorkerConfig | None = None,
        name: str | None = None,
    ) -> None:
        if len(inputs) == 1 and isinstance(inputs[0], WorkerConfig):
            worker_config, inputs = inputs[0], ()
        self.inputs: tuple[SavableDataset[Any], ...] = tuple(map(as_stage, inputs))
        if worker_config is None and self.inputs:
            worker_config = self.inputs[0].worker_config
            for upstream, argument in product(self.inputs[1:], _OF_A_RUN):
                expected, other = getattr(worker_config, argument), getattr(upstream.worker_config, argument)
                if expected != other:
                    raise ConfigError(
                        f"datasets of one chain have worker configs with {argument}={expected} and {argument}={other}",
                        hint="build all of them with the same WorkerConfig",
                    )
        self.worker_config: WorkerConfig = (
            worker_config if worker_config is not None else WorkerConfig.default_worker_config()
        )
        self.name = name or type(self).__name__
        register_with_torch()
        self.depth: int = 1 + max((upstream.depth for upstream in self.inputs), default=-1)

    @stage_property
    def datasets(self) -> tuple[SavableDataset[Any], ...]:
        """The stages directly below, for code that walks a chain."""
        return self.inputs

    @stage_property
    def dataset(self) -> SavableDataset[Any]:
        """The only stage directly below.

        Raises:
            AttributeError: There is none, or several.
        """
        if len(self.datasets) != 1:
            inner = plural(len(self.datasets), "inner dataset")
            raise AttributeError(f"{type(self).__name__} has {inner}; see its 'datasets'")
        return self.datasets[0]

    @stage_property
    def key(self) -> str:
        """Key of this stage's entry in a state."""
        return f"{self.depth} {self.name}"

    @stage_property
    def entry_schema(self) -> Schema:
        """Type of the value that :meth:`Running.state` saves under this stage's key; None if it saves none."""
        return None

    def state_schema(self) -> dict[str, Schema]:
        """Return the types of :meth:`Running.state`, by key: the entries of this stage and of the stages below."""
        schema = {} if self.nests_states else self.inputs[0].state_schema()
        if self.entry_schema is not None:
            schema[self.key] = NotRequired[self.entry_schema]
        return schema

    @stage_property
    def traits(self) -> StageTraits:
        """Traits of the stage alone; a class declares them by an attribute or a property."""
        return StageTraits()

    @stage_property
    def nests_states(self) -> bool:
        """True if the stage does not pass on the states and positions of its only input."""
        return len(self.inputs) != 1 or self.traits.nests_states

    @stage_property
    def repeats(self) -> bool:
        """True if the chain has no end."""
        endless = self.traits.endless
        return any(upstream.repeats for upstream in self.inputs) if endless is None else endless

    @stage_property
    def starts_over(self) -> bool:
        """True if each iteration of a loader starts a new pass, as in validation."""
        starts_over = self.traits.starts_over
        return any(upstream.starts_over for upstream in self.inputs) if starts_over is None else starts_over

    @stage_property
    def counts_on_rank(self) -> bool:
        """True if a stage of the chain counts the micro-batches of a rank."""
        return self.traits.on_rank or any(upstream.counts_on_rank for upstream in self.inputs)

    @stage_property
    def drains_worker(self) -> bool:
        """True if a lane that shares a pass ends when no lane of its worker has items for a batch left."""
        if self.traits.ends == "with_inputs":
            return all(upstream.drains_worker for upstream in self.inputs)
        return self.traits.ends == "with_worker"

    @stage_property
    def waits(self) -> bool:
        """True if a stage of the chain buffers samples, so that each lane takes memory."""
        return self.traits.buffers or any(upstream.waits for upstream in self.inputs)

    @stage_property
    def runs_user_code(self) -> bool:
        """True if a stage of the chain calls functions that may draw random numbers."""
        return self.traits.draws_random or any(upstream.runs_user_code for upstream in self.inputs)

    @stage_property
    def items(self) -> int | None:
        """Number of items of all lanes in one pass; None if it is endless, or not known in advance."""
        items = self.inputs[0].items if self.traits.one_to_one and self.inputs else None
        return None if items is None else self.traits.items_of(items)

    @stage_property
    def round_samples(self) -> int:
        """Number of samples until each one of the data has come in all lanes together; 0 if not known."""
        return sum(upstream.round_samples for upstream in self.inputs)

    def lane_bound(self, lane: int, lanes: int) -> int | None:
        """Return the largest number of items that a lane may have in a pass; None if it is not known."""
        items = self.inputs[0].lane_bound(lane, lanes) if self.traits.never_more else None
        # The last samples of several lanes may make one batch, so `drop_last` drops no batch for certain.
        return None if items is None else replace(self.traits, drop_last=False).items_of(items)

    def nominal_items(self, worker: int, workers: int) -> int:
        """Return the number of items of an epoch on a worker, if each stage makes one item or batch of its input items.

        Args:
            worker: The worker, among the workers of all ranks.
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
        return self.traits.items_of(sum(upstream.nominal_items(worker, workers) for upstream in self.inputs))

    def settings(self) -> dict[str, Any]:
        """Return the arguments that determine the items and their order, as plain data; a restore compares them."""
        return {}

    def identity(self) -> list[Any]:
        """Describe the chain for comparison with a saved state: name, settings and inputs, as plain data."""
        if self.traits.unchanged:
            return self.inputs[0].identity()
        return [self.name, self.settings(), *(each.identity() for each in (*self.inputs, *self.read_sources))]

    def begin_on(self, ranks: int) -> None:
        """Set the number of ranks with which the run began: the steps at which weights change are counted on them."""
        for upstream in self.inputs:
            upstream.begin_on(ranks)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the printed chain: this stage, then its inputs and sources, indented."""
        shown = dict(self.settings())
        # A schedule may have thousands of stretches: their number and the last start are enough.
        if schedule := shown.get("schedule"):
            starts, unit = schedule["starts"], schedule["unit"]
            shown["schedule"] = f"{plural(len(starts), 'stretch', 'stretches')} to {unit[:-1]} {starts[-1]}"
        # The ranks and workers determine which samples a reader gives to whom.
        if self.read_sources:
            shown |= {"ranks": self.worker_config.world_size, "workers": self.worker_config.num_workers}
        arguments = (
            f"{name}={f'{value:.12g}' if isinstance(value, float) else value}" for name, value in shown.items()
        )
        yield f"{self.name}({', '.join(arguments)})"
        # Draw what is below as branches of a tree, the last one with a corner.
        below = [
            *(upstream.lines() for upstream in self.inputs),
            *([source.describe()] for source in self.read_sources),
        ]
        for position, lines in enumerate(below, start=1):
            first, rest = ("└─ ", "   ") if position == len(below) else ("├─ ", "│  ")
            for row, line in enumerate(lines):
                yield (rest if row else first) + line

    def described_sources(self) -> Iterator[str]:
        """Yield a line for each dataset on disk that the chain reads, with its path and number of samples."""
        for upstream in self.inputs:
            yield from upstream.described_sources()
        yield from (source.describe() for source in self.read_sources)

    def __str__(self) -> str:
        return "\n".join(map(escape_controls, self.lines()))

    def __repr__(self) -> str:
        sources = joined_names(list(self.described_sources()))
        return escape_controls(f"<{next(self.lines())}{' of ' if sources else ''}{sources}>")

    def __dir__(self) -> list[str]:
        users = [kind for kind in type(self).__mro__ if not is_own(kind.__module__)]
        names = {*vars(self), *(name for kind in users for name in vars(kind) if not hasattr(SavableDataset, name))}
        return sorted({*_FOR_USERS, *(name for name in names if not name.startswith("_"))})

    def __bool__(self) -> bool:
        return True  # without this Python calls __len__, which may be 0

    def __len__(self) -> int:
        """Return the number of micro-batches of this rank in a pass, or in an epoch of an endless dataset.

        The number is exact for passes whose stages neither skip nor regroup samples. Otherwise it is nominal: one item
        of a stage for each of its input items, or one batch for each ``batches_of`` of them.

        Raises:
            TypeError: A stage that reads data does not define its number of items.
        """
        if self.defines_iter and not inherits_stage(self):
            if type(self).len_worker is DatasetMethods.len_worker:
                name = type(self).__name__
                raise TypeError(f"the number of samples is not known: {name} does not define len_worker")
            return self.len_rank()
        if self.counts_on_rank:
            return len(self.inputs[0])
        # Items are dealt to the ranks in turn; otherwise, the workers' expected items are added.
        config, items = self.worker_config, self.items
        if items is not None:
            return len(range(config.rank, items, config.world_size))
        workers = max(1, config.num_workers)
        first = config.rank * workers
        return sum(self.nominal_items(worker, workers * config.world_size) for worker in range(first, first + workers))


def register_with_torch() -> None:
    """Register datasets as virtual subclasses of torch's ``IterableDataset``, if torch is imported."""
    kind = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", None)
    if kind is not None and not issubclass(SavableDataset, kind):
        kind.register(SavableDataset)


register_with_torch()

_NOT_REBUILT = (
    ", and samples that it made cannot be rebuilt for the buffers of later stages, unless it defines restore_sample()"
)


class IteratedDataset(SavableDataset[T_co]):
    """The stage of a user's dataset, which defines ``__iter__`` as datasets of megatron-energon do.

    Each lane has a copy of the dataset, whose inner datasets yield the samples of the lane. There are as many lanes as
    workers, as for packing. A state holds what ``save_state`` of the dataset returns.

    Warns:
        RuntimeWarning: Once for each class, with what a restore does not restore.
    """

    traits = StageTraits(buffers=True, draws_random=True, nests_states=True)

    def __init__(self, dataset: SavableDataset[T_co]) -> None:
        is_stage = inherits_stage(dataset)
        inner = () if is_stage else inner_datasets(dataset)
        name = type(dataset).__name__
        super().__init__(*inner, worker_config=getattr(dataset, "worker_config", None), name=name)
        self.user_dataset = dataset
        if is_stage:
            self.inputs, self.depth = (dataset,), dataset.depth + 1
        lost = "" if type(dataset).restore_sample is not DatasetMethods.restore_sample else _NOT_REBUILT
        warn_once(
            f"{name} iterates its samples itself: a restored run continues from what its save_state() returns{lost}"
        )

    def settings(self) -> dict[str, Any]:
        if type(self.user_dataset).config is DatasetMethods.config:
            return {}
        return {
            name: value
            for name, value in self.user_dataset.config().items()
            if name != "type" and not name.startswith("_") and type(value) in (str, int, float, bool)
        }

    @property
    def entry_schema(self) -> Schema:
        inner = {
            str(origin): NotRequired[
                saved_dict(**{"state": saved_dict(**upstream.state_schema()), "pass": COUNT, "over": bool})
            ]
            for origin, upstream in enumerate(self.inputs)
        }
        return saved_dict(own=str, ranks=RANKS, given=COUNT, over=bool, position=NotRequired[COUNT], **inner)

    def open(self, lane: Lane, state: State) -> Running:
        ranks = self.worker_config.world_size
        return UserRunning(self.user_dataset, self.inputs, lane, state, key=self.key, ranks=ranks)

    def __len__(self) -> int:
        return len(self.user_dataset)


def has_end(dataset: SavableDataset[Any]) -> bool:
    """Return True if a source of a chain ends, even if its passes are repeated."""
    return any(map(has_end, dataset.inputs)) if dataset.inputs else not dataset.repeats


def as_stage(dataset: Any) -> Any:
    """Return the stage of a dataset: of a user's class, an :class:`IteratedDataset`; otherwise the dataset itself."""
    return IteratedDataset(dataset) if isinstance(dataset, SavableDataset) and dataset.defines_iter else dataset
