"""Inner datasets of users' datasets, and methods that subclasses written for megatron-energon call and override."""

from __future__ import annotations

import copy
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ...errors import ConfigError, EnergonError, StateError
from ...format.documents.messages import short_repr
from ...own_names import canonical_name, is_own
from ...renamed_parameters import renamed_parameters
from .lane import Lane
from .running import Running, State
from .worker_config import WorkerConfig

_CONTAINERS = (list, tuple, dict, set, deque, bytearray)
_MAX_SEARCHED = 4096
"""Items of a container that is searched for datasets; longer ones are data."""


def inner_datasets(dataset: Any) -> list[Any]:
    """Return the library's datasets in the attributes of a user's dataset, and of users' datasets in these."""
    datasets: list[Any] = []

    def note(inner: Any) -> Any:
        datasets.append(inner)
        return inner

    replace_datasets(dataset, note, {})
    return datasets


def close_datasets(dataset: Any) -> None:
    """Call ``close`` of each dataset of users in a chain."""
    for inner in dataset.inputs:
        close_datasets(inner)
    if dataset.defines_iter:
        dataset.close()


def replace_datasets(
    dataset: Any, replace: Callable[[Any], Any], done: dict[int, Any], config: WorkerConfig | None = None
) -> Any:
    """Copy a user's dataset, with each of the library's datasets in its attributes replaced.

    Args:
        replace: Called once for each of the library's datasets.
        config: The worker config of the copy; None keeps the original's.
    """

    def replaced(value: Any) -> Any:
        if isinstance(value, DatasetMethods):
            # Several attributes may hold one dataset: all of them get the same replacement.
            if id(value) not in done:
                is_user = value.defines_iter and not inherits_stage(value)
                done[id(value)] = replace_datasets(value, replace, done, config) if is_user else replace(value)
            return done[id(value)]
        # Long containers are data; a search of each would delay the start.
        if isinstance(value, _CONTAINERS) and len(value) > _MAX_SEARCHED:
            return copy.copy(value)
        if type(value) in (list, tuple):
            return type(value)(map(replaced, value))
        if type(value) is dict:
            return {key: replaced(inner) for key, inner in value.items()}
        return copy.copy(value) if isinstance(value, _CONTAINERS) else value

    # Note the copy before its attributes are replaced: they may refer to the dataset.
    copied = copy.copy(dataset)
    done[id(dataset)] = copied
    for name, value in vars(dataset).items():
        if name == "inputs":
            continue  # the library's record of the datasets that are in other attributes, too
        new_value = replaced(value)
        # Lanes change the values that the dataset saves, so a shallow copy would let lanes share them.
        own_names = (*dataset._savable_fields, *dataset._worker_local_fields)  # noqa: SLF001 - documented for subclasses
        is_own_state = new_value is value and name in own_names
        copied.__dict__[name] = copy.deepcopy(value) if is_own_state else new_value
    if config is not None:
        copied.__dict__["worker_config"] = config
    return copied


T_co = TypeVar("T_co", covariant=True)

BOUND = "_lane_input"
"""Attribute of a copy of a dataset that is open for a lane: its :class:`.OpenInput`."""
_DIRECT = "_direct_loader"


_direct_loaders: list[Callable[[Any], Any]] = []


class _Thread(threading.local):
    def __init__(self) -> None:
        self.user_iterations: list[str] = []
        """Names of the datasets of users whose ``__iter__`` is running in this thread, outermost first."""


_thread = _Thread()


def set_direct_loader(open_loader: Callable[[Any], Any]) -> None:
    """Set the function that opens a loader without workers for a dataset; loaders are in a room above this one."""
    _direct_loaders[:] = [open_loader]


class in_user_iteration:  # noqa: N801 - a context manager; @contextmanager takes five times as long
    """Context manager around the ``__iter__`` of a user's dataset, where no loader may be opened."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        _thread.user_iterations.append(self._name)

    def __exit__(self, *error: object) -> None:
        _thread.user_iterations.pop()


class DatasetMethods(Generic[T_co]):
    """The methods that subclasses written for megatron-energon call and override.

    Attributes:
        _savable_fields: Names of the attributes that :meth:`save_state` saves.
        _worker_local_fields: Names of other attributes that are copied for each lane.
        defines_iter: True if the class defines how it is iterated, as classes written for megatron-energon do.
    """

    _savable_fields: ClassVar[tuple[str, ...]] = ()
    _worker_local_fields: ClassVar[tuple[str, ...]] = ()
    defines_iter: ClassVar[bool] = False

    if not TYPE_CHECKING:
        # Classes written for megatron-energon name the types of inputs and outputs of a stage.
        __class_getitem__ = classmethod(GenericAlias)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.defines_iter = cls.__iter__ is not DatasetMethods.__iter__

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != _DIRECT}

    def __iter__(self) -> Iterator[T_co]:
        """Iterate as a loader without workers; a second iteration of endless data continues.

        Subclasses that are written for megatron-energon override it, and iterate inner datasets.

        Raises:
            ConfigError: A user's ``__iter__`` iterates a dataset that is not in an attribute of its own dataset.
            TypeError: torch's ``DataLoader`` iterates it, whose workers would all read all samples.
        """
        # The caller shows it before a sample is read.
        caller = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 - documented, and fast
        if caller == "torch.utils.data._utils.fetch":
            raise TypeError(
                "this dataset has workers of its own: iterate get_loader(dataset) instead of torch's "
                "DataLoader(dataset), or open the samples by number with random_access()"
            )
        bound = self.__dict__.get(BOUND)
        return iter(self._direct() if bound is None else bound)

    def _direct(self) -> Any:
        loader: Any = self.__dict__.get(_DIRECT)
        if loader is None:
            # Lanes open the datasets in attributes; another one would be loaded as a whole in each lane.
            if _thread.user_iterations:
                name = type(self).__name__
                raise ConfigError(
                    f"__iter__ of {_thread.user_iterations[-1]} iterates a {name} that is in no attribute of it",
                    hint="keep inner datasets in attributes of the dataset, or in lists, tuples or dicts there",
                )
            if not _direct_loaders:
                raise TypeError("this dataset is only the definition of a chain: iterate get_loader(dataset)")
            loader = self.__dict__[_DIRECT] = _direct_loaders[0](self)
        return loader

    def open(self, lane: Lane, state: State) -> Running:  # noqa: ARG002 - the contract of all stages
        """Open the chain for a lane; each stage overrides it.

        Args:
            lane: The lane.
            state: Empty, or the result of :meth:`Running.state` for the same lane of an equal chain.

        Raises:
            TypeError: The class defines neither this method nor ``__iter__``.
        """
        raise TypeError(f"{type(self).__name__} defines neither __iter__ nor open, so it has no samples")

    def worker_has_samples(self) -> bool:
        """Return True if this dataset has samples in the present lane; always outside of a lane."""
        bound = self.__dict__.get(BOUND)
        return bound is None or bound.has_samples()

    def save_state(self) -> dict[str, Any]:
        """Return the attributes named by ``_savable_fields``, or the position of a dataset of the library."""
        if not self.defines_iter:
            bound = self.__dict__.get(BOUND)
            position: dict[str, Any] = self._direct().save_state_rank() if bound is None else bound.save_state()
            return position
        state: dict[str, Any] = {"__class__": type(self).__name__}
        for name in self._savable_fields:
            value = getattr(self, name)
            state[name] = value.save_state() if callable(getattr(value, "save_state", None)) else copy.copy(value)
        return state

    def restore_state(self, state: Any) -> None:
        """Restore the result of :meth:`save_state`; None restores the initial state.

        Raises:
            StateError: The state lacks a field of ``_savable_fields``.
        """
        bound = self.__dict__.get(BOUND)
        # No state is the beginning; datasets of the library know their own form of state.
        if state is None:
            self.reset_state_deep()
        elif not self.defines_iter:
            self._direct().restore_state_rank(state) if bound is None else bound.restore_state(state)
        else:
            # A user's dataset restores field by field: inner datasets and other objects with a state restore
            # themselves.
            for name in self._savable_fields:
                try:
                    saved = state[name]
                except (LookupError, TypeError):
                    raise StateError(
                        f"expected the state of {type(self).__name__} to have {name!r}, found {short_repr(state)}",
                        hint="restore another state; one from before a field was added needs a restore_state for both",
                    ) from None
                value = getattr(self, name, None)
                if callable(getattr(value, "restore_state", None)):
                    value.restore_state(saved)  # type: ignore[union-attr] # it has the method
                else:
                    setattr(self, name, saved)

    def reset_state_own(self) -> None:
        """Restore the initial state of this dataset, without its inner datasets."""

    def reset_state(self) -> None:
        """Restore the initial state of this dataset; version 8 of megatron-energon calls it by this name."""
        self.reset_state_own()

    def worker_close(self) -> None:
        """Release what the copy of this dataset in a lane has opened; called when the worker of the lane ends."""

    def close(self) -> None:
        """Release what this dataset has opened in the process of the training loop; a loader calls it at shutdown."""

    def reset_state_deep(self) -> None:
        """Restore the initial state of this dataset and its inner datasets."""
        bound = self.__dict__.get(BOUND)
        if bound is not None:
            bound.restore_state(None)
        self.__dict__.pop(_DIRECT, None)
        self.reset_state()

    def len_rank(self) -> int:
        """Return the number of items of this rank in a pass.

        Raises:
            TypeError: It is not known.
        """
        if type(self).len_worker is DatasetMethods.len_worker:
            return len(self)  # type: ignore[arg-type] # datasets have a length
        config: Any = self.worker_config  # type: ignore[attr-defined] # as below
        return sum(self.len_worker(worker) for worker in range(max(1, config.num_workers)))

    def len_worker(self, worker_idx: int | None = None) -> int:
        """Return the number of items of a worker of this rank in a pass.

        Args:
            worker_idx: The worker; None for the present one.

        Raises:
            TypeError: It is not known.
        """
        config: Any = self.worker_config  # type: ignore[attr-defined] # of the class that derives from this one
        worker = config.rank_worker_id() if worker_idx is None else worker_idx
        return len(range(worker, self.len_rank(), max(1, config.num_workers)))

    def can_restore_sample(self) -> bool:
        """Report whether :meth:`restore_sample` works: always, for the datasets of the library."""
        return not self.defines_iter

    def assert_can_restore(self) -> None:
        """Check that :meth:`restore_sample` works.

        Raises:
            EnergonError: It does not.
        """
        if not self.can_restore_sample():
            raise EnergonError(
                f"{type(self).__name__} cannot rebuild its samples",
                hint="override can_restore_sample and restore_sample",
            )

    @renamed_parameters(index="restore_key")
    def restore_sample(self, restore_key: Any) -> Any:
        """Rebuild a sample.

        Args:
            restore_key: Its ``__restore_key__``.

        Raises:
            EnergonError: The dataset is a user's, which does not override this method.
        """
        bound = self.__dict__.get(BOUND)
        if bound is not None:
            return bound.restore_sample(restore_key)
        if self.defines_iter:
            self.assert_can_restore()
            raise EnergonError(f"{type(self).__name__} overrides can_restore_sample, but not restore_sample")
        return self._direct().restore_sample(restore_key)

    def config(self) -> dict[str, Any]:
        """Return plain data that differs for other data and other arguments."""
        identity = getattr(self, "identity", None)
        return {
            "type": f"{canonical_name(type(self).__module__)}.{type(self).__qualname__}",
            **({} if self.defines_iter or identity is None else {"chain": identity()}),
        }

    @staticmethod
    def _function_config(fn: Callable[..., Any]) -> str:
        function = getattr(fn, "__func__", fn)
        module = canonical_name(str(getattr(function, "__module__", "")))
        return f"{module}.{getattr(function, '__qualname__', type(fn).__qualname__)}"


def inherits_stage(dataset: Any) -> bool:
    """Return True if a dataset is a stage of the library whose ``__iter__`` a subclass of a user overrides."""
    owner = next((ancestor for ancestor in type(dataset).__mro__ if "open" in vars(ancestor)), object)
    return dataset.defines_iter and owner is not DatasetMethods and is_own(owner.__module__)
