"""``EnergonMultiModalDataModule`` (seed page 000): loaders for training with Megatron-LM or Megatron-Bridge."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, Literal, TypeVar

from ..errors import ConfigError
from ..escaped_log import get_logger
from ..pipeline.contract.worker_config import WorkerConfig
from ..samples.encoding.task_encoder import DefaultTaskEncoder
from ..training.datasets.get_datasets import get_train_dataset, get_val_dataset
from ..training.loaders.data_loader import SavableDataLoader
from ..training.loaders.get_loader import get_savable_loader

T = TypeVar("T")


class EnergonDataloader(Generic[T]):
    """Iterator over a loader's micro-batches without end: after the last one of a pass comes the first of the next.

    ``iter()`` returns the object itself, so the iterator can be saved as well. Worker processes start at the first
    micro-batch.

    Args:
        dataloader: A loader from ``get_savable_loader``. It can still be used directly, but only one iteration over it
            can be active at a time.

    >>> loader = get_savable_loader(get_val_dataset("photos", split_part="train", batch_size=4))
    >>> batches = EnergonDataloader(loader)
    >>> next(batches).caption == next(batches).caption
    True
    """

    def __init__(self, dataloader: SavableDataLoader[T]) -> None:
        self.dataloader = dataloader
        self._batches = cyclic_iter(dataloader)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        """Return the next micro-batch.

        Raises:
            ConfigError: Two passes in a row had no micro-batch for this rank.
        """
        try:
            return next(self._batches)
        except BaseException:
            # A generator that raised is exhausted, while the loader can continue: iterate it with a new generator.
            self._batches = cyclic_iter(self.dataloader)
            raise

    def reset(self) -> None:
        """Restart the pass over validation data; a training loader continues at its position."""
        self._batches = cyclic_iter(self.dataloader)

    def save_state(self) -> dict[str, Any]:
        """Return the state of this rank after the last micro-batch that it received.

        Returns:
            Plain data from :meth:`.SavableDataLoader.save_state_rank`. Not a collective call: Megatron calls it on one
            rank of each data-parallel group.
        """
        return self.dataloader.save_state_rank()

    def restore_state(self, state: dict[str, Any] | Sequence[dict[str, Any]] | None) -> None:
        """Restore a saved state, and continue behind it.

        Args:
            state: The state that :meth:`save_state` returned on this rank, for a run with the same number of ranks. Or
                the list of the states of all ranks, which restores on any number of ranks. None starts at the
                beginning.

        Raises:
            StateError: The state is of other data, of another pipeline, or of other ranks.
        """
        if state is None or isinstance(state, dict):
            self.dataloader.restore_state_rank(state)
        else:
            self.dataloader.restore_state_global(state)
        self._batches = cyclic_iter(self.dataloader)


def cyclic_iter(iter: Iterable[T]) -> Iterator[T]:  # noqa: A002 - the name on the seed page
    """Iterate over an iterable repeatedly, without end.

    Args:
        iter: An iterable that can be iterated more than once, such as a loader or a list. Items are not buffered.

    Yields:
        The items of each pass in turn.

    Raises:
        ConfigError: Two passes in a row had no items.

    >>> from itertools import islice
    >>> list(islice(cyclic_iter([1, 2, 3]), 7))
    [1, 2, 3, 1, 2, 3, 1]
    """
    empty_passes = 0  # one is allowed: a loader that was restored at the end of its pass has no items left in it
    while empty_passes < 2:
        empty_passes += 1
        for item in iter:
            empty_passes = 0
            yield item
    raise ConfigError(
        "expected an iterable that yields items in each pass, found two empty passes in a row",
        hint="pass a loader or a list, not an iterator, which is exhausted after one pass; or provide at least one "
        "micro-batch for each rank: use smaller batches, fewer ranks, or a larger part of the split",
    )


logger = get_logger(__name__)

_TRAINING_ONLY = ("repeat", "shuffle_over_epochs_multiplier", "virtual_epoch_length")
_VALIDATION_ONLY = ("limit",)


class EnergonMultiModalDataModule:
    """Data module that builds the loaders for training and validation from one set of arguments.

    Derive from it to set what your model needs, such as a task encoder. Megatron need not be installed.

    Args:
        path: The folder of a prepared dataset, or a metadataset.
        tokenizer: Stored for task encoders and derived classes; not used here.
        image_processor: Stored for task encoders and derived classes; not used here.
        seq_length: Maximum tokens of a sequence. Stored for task encoders and derived classes; not used here.
        micro_batch_size: Samples of a micro-batch.
        global_batch_size: Stored for derived classes; the training loop decides how many micro-batches make a step.
        num_workers: Worker processes of each rank for training.
        num_val_workers: Worker processes of each rank for validation; by default ``num_workers``.
        pin_memory: Copy micro-batches from worker processes to pinned memory, if there is a GPU.
        shuffle_buffer_size: Samples of a shuffling window.
        max_samples_per_sequence: Maximum neighbouring samples of a slice, the unit of sequential reading; None reads
            whole shards sequentially.
        multimodal_sample_config: Stored for task encoders and derived classes; not used here.
        task_encoder: The hooks; by default samples are only batched.
        decoder_seq_length: Stored for task encoders and derived classes; not used here.
        packing_buffer_size: Samples from which ``select_samples_to_pack`` chooses; None does not pack.
        validation_task_encoder: The hooks for validation; by default ``task_encoder``.
        pg_collection: Megatron's process groups; the group ``dp`` defines this process's rank. By default, the group of
            Megatron's ``parallel_state`` if that is initialised, otherwise the world of ``torch.distributed``.
        **kwargs: Other arguments of :func:`~loader.training.datasets.get_datasets.get_train_dataset` and
            :func:`~loader.training.datasets.get_datasets.get_val_dataset`; arguments that both accept are passed to
            both. In addition, ``validation_as_training=True`` makes validation an endless shuffled stream, as on the
            seed page.

    Attributes:
        init_global_step: The step at which this run began, for loops that count steps.
        train_dataloader_object: The training loader, after its first use. Set to None to build a new one.
        val_dataloader_object: The validation loader, after its first use. It ends after a pass, and starts over at
            each ``iter()``.

    >>> data = EnergonMultiModalDataModule("photos", tokenizer=None, micro_batch_size=2, num_workers=0)
    >>> next(iter(data.train_dataloader())).image.shape
    torch.Size([2, 3, 6, 8])
    """

    def __init__(  # noqa: PLR0917 - as on the seed page
        self,
        path: str | os.PathLike[str],
        tokenizer: Any,
        image_processor: Any = None,
        seq_length: int = 2048,
        micro_batch_size: int = 1,
        global_batch_size: int = 1,
        num_workers: int = 1,
        num_val_workers: int | None = None,
        pin_memory: bool = True,
        shuffle_buffer_size: int | None = 100,
        max_samples_per_sequence: int | None = None,
        multimodal_sample_config: Any | None = None,
        task_encoder: Any | None = None,
        decoder_seq_length: int | None = None,
        packing_buffer_size: int | None = None,
        validation_task_encoder: Any | None = None,
        pg_collection: Any | None = None,
        **kwargs: Any,
    ) -> None:
        self.path = path
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        self.seq_length = seq_length
        self.decoder_seq_length = decoder_seq_length
        self.micro_batch_size = micro_batch_size
        self.global_batch_size = global_batch_size
        self.num_workers = num_workers
        self.num_val_workers = num_workers if num_val_workers is None else num_val_workers
        self.pin_memory = pin_memory
        self.shuffle_buffer_size = shuffle_buffer_size
        self.max_samples_per_sequence = max_samples_per_sequence
        self.multimodal_sample_config = multimodal_sample_config
        self.task_encoder = DefaultTaskEncoder() if task_encoder is None else task_encoder
        self.packing_buffer_size = packing_buffer_size
        self.validation_task_encoder = self.task_encoder if validation_task_encoder is None else validation_task_encoder
        self.pg_collection = pg_collection
        self.validation_as_training = bool(kwargs.pop("validation_as_training", False))
        self.kwargs = kwargs
        self.init_global_step = 0
        self.train_dataloader_object: SavableDataLoader[Any] | None = None
        self.val_dataloader_object: SavableDataLoader[Any] | None = None
        self._endless: dict[str, EnergonDataloader[Any]] = {}
        self._has_warned_of_test = False

    def _build_worker_config(self, num_workers: int, split: str = "train") -> WorkerConfig:
        """Return the rank, world size and workers of the run.

        Ranks are counted in the pure data-parallel group. Context-parallel ranks process parts of one sequence, so they
        need the same micro-batch, as do tensor-parallel ranks.

        Args:
            split: Part of the split that they load, for the log.
        """
        group = self._data_parallel_group()
        if group is None:
            config = WorkerConfig.default_worker_config(num_workers)
        else:
            config = WorkerConfig(
                rank=group.rank(), world_size=group.size(), num_workers=num_workers, data_parallel_group=group
            )
        logger.info("data for %s: rank %d of %d, %d workers", split, config.rank, config.world_size, config.num_workers)
        return config

    def _data_parallel_group(self) -> Any | None:
        if self.pg_collection is not None:
            group = getattr(self.pg_collection, "dp", None)
            if group is None:
                raise ConfigError(
                    f"expected a process group in pg_collection.dp, found none in {type(self.pg_collection).__name__}",
                    hint="set up the data-parallel group, or omit pg_collection",
                )
            return group
        # Initialised groups imply that this module is imported already; importing it here would take seconds.
        parallel_state = sys.modules.get("megatron.core.parallel_state")
        if parallel_state is None or not parallel_state.is_initialized():
            return None
        return parallel_state.get_data_parallel_group()

    def datasets_provider(self, worker_config: WorkerConfig, split: Literal["train", "val"] = "val") -> Any:
        """Build the dataset of a part of the split.

        Args:
            worker_config: Rank, world size and workers of the run.
            split: ``"train"``: shuffled and endless. ``"val"``: each sample once, in order, unless
                ``validation_as_training`` is set.

        Raises:
            ConfigError: ``split`` is neither of the two.
        """
        if split not in ("train", "val"):
            raise ConfigError(f"expected split to be 'train' or 'val', found {split!r}")
        # Options that both kinds of datasets take.
        options: dict[str, Any] = {
            "split_part": split,
            "worker_config": worker_config,
            "batch_size": self.micro_batch_size,
            "packing_buffer_size": self.packing_buffer_size,
            "task_encoder": self.task_encoder if split == "train" else self.validation_task_encoder,
        }
        if split == "val" and not self.validation_as_training:
            options |= {name: value for name, value in self.kwargs.items() if name not in _TRAINING_ONLY}
            return get_val_dataset(self.path, **options)
        # Options of training.
        options["shuffle_buffer_size"] = self.shuffle_buffer_size
        options["max_samples_per_sequence"] = self.max_samples_per_sequence
        options |= {name: value for name, value in self.kwargs.items() if name not in _VALIDATION_ONLY}
        return get_train_dataset(self.path, **options)

    def build(self) -> tuple[EnergonDataloader[Any], EnergonDataloader[Any]]:
        """Return :meth:`train_dataloader` and :meth:`val_dataloader`."""
        return self.train_dataloader(), self.val_dataloader()

    def train_dataloader(self) -> EnergonDataloader[Any]:
        """Return an endless iterator over the training micro-batches; the same object at each call."""
        if self.train_dataloader_object is None:
            self.train_dataloader_object = self._loader("train", self.num_workers)
        return self._endless_of("train", self.train_dataloader_object)

    def val_dataloader(self) -> EnergonDataloader[Any]:
        """Return an endless iterator over passes of validation micro-batches; the same object at each call.

        Each evaluation continues where the previous one stopped; call ``reset()`` to restart the pass.
        """
        if self.val_dataloader_object is None:
            self.val_dataloader_object = self._loader("val", self.num_val_workers)
        return self._endless_of("val", self.val_dataloader_object)

    def test_dataloader(self) -> None:
        """Return None, since there is no test data. The first call logs a warning."""
        if not self._has_warned_of_test:
            self._has_warned_of_test = True
            logger.warning("%s has no test data: test_dataloader() returns None", type(self).__name__)

    def _loader(self, split: Literal["train", "val"], num_workers: int) -> SavableDataLoader[Any]:
        dataset = self.datasets_provider(self._build_worker_config(num_workers, split), split)
        return get_savable_loader(dataset, pin_memory=self.pin_memory)

    def _endless_of(self, split: str, loader: SavableDataLoader[Any]) -> EnergonDataloader[Any]:
        endless = self._endless.get(split)
        if endless is None or endless.dataloader is not loader:
            endless = self._endless[split] = EnergonDataloader(loader)
        return endless
