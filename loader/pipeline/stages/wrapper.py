"""Base class of users' datasets that wrap other datasets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ...errors import ConfigError, StateError
from ...format.documents.messages import short_repr
from ..contract.stage import SavableDataset
from ..contract.worker_config import WorkerConfig

T_co = TypeVar("T_co", covariant=True)


class BaseWrapperDataset(SavableDataset[T_co]):
    """Base of datasets that iterate other datasets in ``__iter__``, as code written for megatron-energon defines them.

    For new code, pass a function to :class:`~loader.pipeline.stages.map.MapDataset` or
    :class:`~loader.pipeline.stages.iter_map.IterMapDataset`: their samples can be rebuilt after a restore.

    Args:
        datasets: The inner dataset, or several.
        worker_config: By default the first inner dataset's.

    Attributes:
        datasets: The inner datasets.
        dataset: The only inner dataset.

    Raises:
        ConfigError: There is no inner dataset.
    """

    def __init__(
        self,
        datasets: SavableDataset[Any] | Iterable[SavableDataset[Any]],
        *,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        inner = (datasets,) if isinstance(datasets, SavableDataset) else tuple(datasets)
        if not inner:
            raise ConfigError("expected at least one inner dataset, found none")
        super().__init__(*inner, worker_config=worker_config)
        self.__dict__["datasets"] = inner  # as given: `inputs` has the stages of users' datasets

    def worker_has_samples(self) -> bool:
        """Return True if an inner dataset has samples in this lane."""
        return any(inner.worker_has_samples() for inner in self.datasets)

    def save_state(self) -> dict[str, Any]:
        """Return the states of the inner datasets and the attributes named by ``_savable_fields``."""
        return {**super().save_state(), "datasets": [inner.save_state() for inner in self.datasets]}

    def restore_state(self, state: Any) -> None:
        """Restore the result of :meth:`save_state`; None restores the initial state.

        Raises:
            StateError: The state lacks a field, or the state of an inner dataset.
        """
        super().restore_state(state)
        if state is not None:
            of_inner = state.get("datasets") if isinstance(state, Mapping) else None
            if not isinstance(of_inner, Sequence) or len(of_inner) != len(self.datasets):
                raise StateError(
                    f"expected the state of {type(self).__name__} to have 'datasets', the states of "
                    f"{len(self.datasets)}, found {short_repr(state)}",
                    hint="restore another state",
                )
            for inner, saved in zip(self.datasets, of_inner, strict=True):
                inner.restore_state(saved)

    def reset_state_deep(self) -> None:
        """Restore the initial state of the inner datasets, then of this one."""
        for inner in self.datasets:
            inner.reset_state_deep()
        super().reset_state_deep()

    def can_restore_sample(self) -> bool:
        """Report whether samples can be rebuilt: not without a :meth:`restore_sample` of the subclass."""
        return type(self).restore_sample is not BaseWrapperDataset.restore_sample and all(
            inner.can_restore_sample() for inner in self.datasets
        )

    def _find_wrapped_dataset(self, cls: type[Any]) -> SavableDataset[Any] | None:
        for inner in self.datasets:
            if isinstance(inner, cls):
                matching: SavableDataset[Any] = inner
                return matching
            if isinstance(inner, BaseWrapperDataset):
                wrapped: SavableDataset[Any] | None = inner._find_wrapped_dataset(cls)  # noqa: SLF001 - the same class
                if wrapped is not None:
                    return wrapped
        return None


class BaseSingleWrapperDataset(BaseWrapperDataset[T_co]):
    """Base of datasets that iterate one other dataset.

    Args:
        dataset: The inner dataset.
        worker_config: By default the inner dataset's.
    """

    def __init__(self, dataset: SavableDataset[Any], *, worker_config: WorkerConfig | None = None) -> None:
        super().__init__((dataset,), worker_config=worker_config)
