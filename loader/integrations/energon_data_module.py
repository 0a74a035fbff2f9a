"""``EnergonMultiModalDataModule`` of seed page 000: the data of a training with Megatron-LM or Megatron-Bridge."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any, Literal

from ..errors import ConfigError
from ..pipeline.contract.stage import SavableDataset
from ..pipeline.contract.worker_config import WorkerConfig
from ..samples.encoding.task_encoder import DefaultTaskEncoder
from ..training.datasets.get_datasets import get_train_dataset, get_val_dataset
from ..training.loaders.data_loader import SavableDataLoader
from ..training.loaders.get_loader import get_savable_loader
from .energon_dataloader import EnergonDataloader

__all__ = ["EnergonMultiModalDataModule"]

logger = logging.getLogger(__name__)

_ONLY_OF_TRAINING = ("repeat", "shuffle_over_epochs_multiplier", "virtual_epoch_length")
_ONLY_OF_VALIDATION = ("limit",)


class EnergonMultiModalDataModule:
    """Make the loaders for training and validation from one set of arguments.

    Derive from it to fill in what your model needs (a task encoder, say); nothing of Megatron need be installed.

    Args:
        path: The folder of a prepared dataset, or a metadataset.
        tokenizer: Kept for task encoders and derived classes, as the next two are.
        image_processor: See above.
        seq_length: See above: the most tokens of a sequence.
        micro_batch_size: Samples of a micro-batch.
        global_batch_size: Kept for derived classes: how many micro-batches make a step is for the training loop to say.
        num_workers: Worker processes of each rank for training.
        num_val_workers: The same for validation; by default as many.
        pin_memory: Put micro-batches that come from worker processes into pinned memory, where there is a GPU.
        shuffle_buffer_size: Samples among which the order is as good as free.
        max_samples_per_sequence: Neighbouring samples that are read one after another; None reads whole shards so.
        multimodal_sample_config: Kept for task encoders and derived classes.
        task_encoder: The hooks; by default samples are only batched.
        decoder_seq_length: Kept for task encoders and derived classes.
        packing_buffer_size: Samples among which ``select_samples_to_pack`` chooses; None does not pack.
        validation_task_encoder: The hooks for validation; by default those for training.
        pg_collection: Megatron's process groups; ``dp`` says which rank this is. By default what Megatron's
            ``parallel_state`` says where it is initialised, and else ``torch.distributed``.
        **kwargs: Other arguments of :func:`~loader.training.datasets.get_datasets.get_train_dataset` and
            :func:`~loader.training.datasets.get_datasets.get_val_dataset`: what both have goes to both. And
            ``validation_as_training=True`` makes validation a shuffled stream without end, as the seed page does.

    Attributes:
        init_global_step: The step with which this run began, for loops that count.
        train_dataloader_object: The loader for training, once it was asked for. None makes a new one the next time.
        val_dataloader_object: The same for validation: a loader that ends, and starts over at each ``iter()``.
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
        self._told_of_test = False

    def _build_worker_config(self, num_workers: int, split: str = "train") -> WorkerConfig:
        """Give how the run is spread.

        Ranks are those of the pure data-parallel group: context-parallel ranks work on parts of one sequence, so they
        must be given the same micro-batch, as tensor-parallel ranks must.

        Args:
            num_workers: Worker processes of this rank.
            split: What they load, for the log.

        Raises:
            ConfigError: The process groups that were given have none for data parallelism.
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
                    hint="set up the data-parallel group, or leave out pg_collection",
                )
            return group
        # Who has initialised Megatron's groups has imported this; importing it for nothing takes seconds.
        parallel_state = sys.modules.get("megatron.core.parallel_state")
        if parallel_state is None or not parallel_state.is_initialized():
            return None
        return parallel_state.get_data_parallel_group()

    def datasets_provider(self, worker_config: WorkerConfig, split: Literal["train", "val"] = "val") -> Any:
        """Make the dataset of a part of the split.

        Args:
            worker_config: How the run is spread.
            split: ``"train"``: shuffled and without end. ``"val"``: each sample once, in order, unless
                ``validation_as_training`` was asked for.

        Raises:
            ConfigError: There is no such part here.
        """
        if split not in ("train", "val"):
            raise ConfigError(f"expected split to be 'train' or 'val', found {split!r}")
        encoder = self.task_encoder if split == "train" else self.validation_task_encoder
        if split == "train" or self.validation_as_training:
            return self._training_data(worker_config, split, encoder)
        return get_val_dataset(
            self.path,
            split_part=split,
            worker_config=worker_config,
            batch_size=self.micro_batch_size,
            packing_buffer_size=self.packing_buffer_size,
            task_encoder=encoder,
            **{name: value for name, value in self.kwargs.items() if name not in _ONLY_OF_TRAINING},
        )

    def _training_data(self, worker_config: WorkerConfig, split: str, encoder: Any) -> SavableDataset[Any]:
        return get_train_dataset(
            self.path,
            split_part=split,
            worker_config=worker_config,
            batch_size=self.micro_batch_size,
            packing_buffer_size=self.packing_buffer_size,
            shuffle_buffer_size=self.shuffle_buffer_size,
            max_samples_per_sequence=self.max_samples_per_sequence,
            task_encoder=encoder,
            **{name: value for name, value in self.kwargs.items() if name not in _ONLY_OF_VALIDATION},
        )

    def build(self) -> tuple[EnergonDataloader[Any], EnergonDataloader[Any]]:
        """Give what :meth:`train_dataloader` and :meth:`val_dataloader` give."""
        return self.train_dataloader(), self.val_dataloader()

    def train_dataloader(self) -> EnergonDataloader[Any]:
        """Give the micro-batches for training, without end; the same object at each call."""
        if self.train_dataloader_object is None:
            self.train_dataloader_object = self._loader("train", self.num_workers)
        return self._endless_of("train", self.train_dataloader_object)

    def val_dataloader(self) -> EnergonDataloader[Any]:
        """Give the micro-batches for validation, pass after pass without end; the same object at each call.

        Evaluations of a few micro-batches each go on behind one another; ``reset()`` begins the pass anew.
        """
        if self.val_dataloader_object is None:
            self.val_dataloader_object = self._loader("val", self.num_val_workers)
        return self._endless_of("val", self.val_dataloader_object)

    def test_dataloader(self) -> None:
        """Give None: there is no data for tests here. The first call says so in the log."""
        if not self._told_of_test:
            self._told_of_test = True
            logger.warning("%s has no data for tests: test_dataloader() gives None", type(self).__name__)

    def _loader(self, split: Literal["train", "val"], num_workers: int) -> SavableDataLoader[Any]:
        dataset = self.datasets_provider(self._build_worker_config(num_workers, split), split)
        return get_savable_loader(dataset, pin_memory=self.pin_memory)

    def _endless_of(self, split: str, loader: SavableDataLoader[Any]) -> EnergonDataloader[Any]:
        found = self._endless.get(split)
        if found is None or found.dataloader is not loader:
            found = self._endless[split] = EnergonDataloader(loader)
        return found
