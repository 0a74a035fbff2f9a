"""A buffer of samples that a user's dataset saves with its state."""

from collections.abc import Generator, Iterator, Sequence
from copy import copy
from typing import Any, TypeVar

from ..errors import plural
from ..pipeline.contract.restore_keys import get_sample_restore_key
from ..pipeline.contract.stage import SavableDataset
from ..pipeline.contract.user_state import FlexState
from ..pipeline.contract.worker_config import WorkerConfig
from ..pipeline.stages.wrapper import BaseWrapperDataset

T_sample = TypeVar("T_sample")
_KEYS = "_restore_keys"  # of a state


class SavableSampleBuffer(BaseWrapperDataset[T_sample]):
    """A list of samples of a dataset, for the ``__iter__`` of a dataset that names it in ``_savable_fields``.

    A state has the restore keys of the samples, which are rebuilt at the first use after a restore.

    Args:
        dataset: Rebuilds the samples.
        worker_config: By default the dataset's.
    """

    def __init__(self, dataset: SavableDataset[T_sample], *, worker_config: WorkerConfig | None = None) -> None:
        super().__init__(dataset, worker_config=worker_config)
        self._samples: list[T_sample] = []
        self._keys: list[Any] = []

    @property
    def buffer(self) -> list[T_sample]:
        """The samples."""
        self.worker_start()
        return self._samples

    def worker_start(self) -> None:
        """Rebuild the samples of a restored state."""
        if len(self._samples) < len(self._keys):
            self._samples = self.restore_samples(tuple(self._keys))[1]

    def append(self, sample: T_sample) -> T_sample:
        """Append a sample, and return it."""
        self.extend([sample])
        return sample

    def extend(self, samples: Sequence[T_sample], restore_keys: Sequence[Any] | None = None) -> None:
        """Append samples.

        Args:
            samples: The samples.
            restore_keys: Their restore keys; None takes those that they have.
        """
        samples = list(samples)
        keys = list(map(get_sample_restore_key, samples) if restore_keys is None else restore_keys)
        if len(keys) != len(samples):
            raise ValueError(f"expected a restore key for each of {plural(len(samples), 'sample')}, found {len(keys)}")
        self.buffer.extend(samples)
        self._keys += keys

    def append_iter(self) -> Generator[T_sample, None, None]:
        """Iterate the dataset; append each sample, and yield it."""
        for sample in self.dataset:
            yield self.append(sample)

    def pop(self, index: int) -> T_sample:
        """Remove and return the sample at an index."""
        sample = self.buffer.pop(index)
        del self._keys[index]
        return sample

    def flush(self) -> tuple[list[T_sample], tuple[Any, ...]]:
        """Remove and return all samples, and their restore keys."""
        samples, keys = self.buffer, self.restore_key()
        self.clear()
        return samples, keys

    def clear(self) -> None:
        """Remove all samples."""
        self._samples, self._keys = [], []

    reset_state_own = clear

    def __iter__(self) -> Iterator[T_sample]:
        return iter(self.buffer)

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, index: Any) -> Any:
        return self.buffer[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        is_range = isinstance(index, slice)
        value = list(value) if is_range else value
        keys = list(map(get_sample_restore_key, value)) if is_range else get_sample_restore_key(value)
        self.buffer[index] = value
        self._keys[index] = keys

    def __delitem__(self, index: int | slice) -> None:
        del self.buffer[index]
        del self._keys[index]

    def len_worker(self, worker_idx: int | None = None) -> int:  # noqa: ARG002 - the contract of datasets
        """Return the number of samples."""
        return len(self._keys)

    def save_state(self) -> FlexState:
        """Return the restore keys."""
        return FlexState(__class__=type(self).__name__, **{_KEYS: copy(self._keys)})

    def restore_state(self, state: Any) -> None:
        """Restore the result of :meth:`save_state`; None removes all samples."""
        self.clear()
        self._keys = list(state[_KEYS]) if state is not None else []

    def restore_key(self) -> tuple[Any, ...]:
        """Return the restore keys of the samples."""
        return tuple(self._keys)

    def restore_samples(self, index: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[T_sample]]:
        """Rebuild samples by their restore keys; return the keys and the samples."""
        return index, list(map(self.dataset.restore_sample, index))
