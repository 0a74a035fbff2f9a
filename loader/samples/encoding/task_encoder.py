"""The task encoder: the user's code, from a crude sample to the batch that training gets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from ..batching.collate import generic_batch
from ..decoding.decoder import SampleDecoder
from ..hooks import alias_hook, current_cache, hook_context, library_hook, noop_hook, stateless
from ..sample_dataclass import as_type
from .cooking import Cooker, cook

__all__ = ["DefaultTaskEncoder", "TaskEncoder"]

T_sample = TypeVar("T_sample")
T_encoded_sample = TypeVar("T_encoded_sample")
T_raw_batch = TypeVar("T_raw_batch")
T_batch = TypeVar("T_batch")


class TaskEncoder(Generic[T_sample, T_encoded_sample, T_raw_batch, T_batch]):
    """What is done to samples on their way to training; derive from it, and define the hooks that you need.

    The hooks, in the order in which they are called: ``cook_crude_sample``, ``encode_sample`` (with packing
    ``preencode_sample``, ``select_samples_to_pack``, ``postencode_sample``, ``pack_selected_samples``),
    ``batch_group_criterion``, ``batch``, ``encode_batch``. A hook that is not defined costs nothing: there is no stage
    for it. Any hook may raise :class:`~loader.errors.SkipSample`, which leaves its sample or batch out. A hook that
    makes samples or batches may be a generator, which gives several.

    A subclass need not call ``super().__init__()``.

    Attributes:
        decoder: Decodes the parts of samples; None leaves them bytes.
        cookers: What makes samples out of crude ones.

    >>> class Lower(TaskEncoder):
    ...     def encode_sample(self, sample):
    ...         return sample | {"text": sample["text"].lower()}
    >>> Lower().encode_sample({"text": "A Cat"})
    {'text': 'a cat'}
    """

    decoder: SampleDecoder | None = SampleDecoder()
    cookers: ClassVar[Sequence[Cooker]] = ()

    @library_hook
    def cook_crude_sample(self, sample: dict[str, Any], **aux: Any) -> Any:
        """Make a sample out of a crude one: by default the first of ``cookers`` does that is for it.

        Args:
            sample: The crude sample, a dict of its parts.
            aux: The auxiliary stores of its dataset by name, ``primary`` (all parts of its own dataset) and ``cache``.

        Raises:
            ConfigError: There are cookers, and none is for this sample.
        """
        return cook(sample, self.cookers, aux)

    @noop_hook()
    @stateless
    def encode_sample(self, sample: T_sample) -> Any:
        """Encode one sample: tokenise its text, crop its picture …; by default, return it."""
        return sample

    @alias_hook("encode_sample")
    def preencode_sample(self, sample: T_sample) -> Any:
        """Encode a sample before it waits to be packed; by default, this is ``encode_sample``.

        What is large is better left to ``postencode_sample``: here it would wait in memory.
        """

    @noop_hook()
    @stateless
    def postencode_sample(self, sample: Any) -> Any:
        """Encode a sample that is about to be packed; by default, return it."""
        return sample

    @noop_hook()
    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        """Say which of the waiting samples are packed together.

        Args:
            samples: As many as ``packing_buffer_size`` says, fewer at the end of a pass.

        Returns:
            Groups of these very samples. A sample that is in no group is left out.
        """
        raise NotImplementedError(
            f"samples are to be packed, but {type(self).__name__} does not define select_samples_to_pack"
        )

    @noop_hook()
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        """Make one sample out of a group of samples."""
        raise NotImplementedError(
            f"samples are to be packed, but {type(self).__name__} does not define pack_selected_samples"
        )

    @noop_hook()
    def batch_group_criterion(self, sample: Any) -> tuple[Hashable, int | None]:
        """Say with which others a sample may share a batch, and how many such a batch holds.

        Returns:
            A key: samples with equal keys make batches. And the size of these batches, the same for each sample with
            this key; None is the run's ``batch_size``.
        """
        raise NotImplementedError(
            f"samples are to be grouped, but {type(self).__name__} does not define batch_group_criterion"
        )

    @library_hook
    @stateless
    def batch(self, samples: list[Any]) -> Any:
        """Make a batch of samples; by default as :func:`~loader.samples.batching.collate.generic_batch` does."""
        return generic_batch(samples)

    @noop_hook()
    @stateless
    def encode_batch(self, batch: Any) -> Any:
        """Encode a batch; by default, return it."""
        return batch

    @library_hook
    def build_train_datasets(self, *, datasets: Any, **options: Any) -> Any:
        """Build the chain of stages for training; override it to compose another one.

        Args:
            datasets: What was loaded, a :class:`~loader.training.datasets.run_datasets.LoadedDatasets`.
            **options: The arguments of ``get_train_dataset`` that shape the chain.
        """
        return datasets.train_chain(self, **options)

    @library_hook
    def build_val_datasets(self, *, datasets: Any, **options: Any) -> Any:
        """Build the chain of stages for validation; override it to compose another one.

        Args:
            datasets: As in :meth:`build_train_datasets`.
            **options: The arguments of ``get_val_dataset`` that shape the chain.
        """
        return datasets.val_chain(self, **options)

    @property
    def current_batch_index(self) -> int | None:
        """The number of the micro-batch that is being made, within the run.

        Raises:
            EnergonError: No hook is running.
        """
        return hook_context().batch_index

    @property
    def current_sample_index(self) -> int | None:
        """The number of the sample that is being encoded.

        Raises:
            EnergonError: No hook is running.
        """
        return hook_context().sample_index

    @property
    def cache(self) -> Any:
        """The cache pool of the run.

        Raises:
            EnergonError: No hook is running, or the run has no cache pool.
        """
        return current_cache()


class DefaultTaskEncoder(TaskEncoder[T_sample, T_encoded_sample, T_raw_batch, T_batch]):
    """A task encoder that works as it is: samples stay what they are, and batches are made field by field.

    Args:
        encoded_sample_type: ``encode_sample`` makes one of these, of the sample's fields of the same names.
        raw_batch_type: ``batch`` makes one of these: by its ``from_samples`` where it has one, as a
            :class:`~loader.samples.batching.batch.Batch` has, otherwise of the batch's fields.
        batch_type: ``encode_batch`` makes one of these, of the batch's fields.

    Each of them is a dataclass, or ``dict``, which takes all fields.

    >>> from loader import CaptioningSample, TextSample
    >>> encoder = DefaultTaskEncoder(batch_type=dict)
    >>> batch = encoder.batch([TextSample(__key__="s.tar/0", text="a cat"), TextSample(__key__="s.tar/1", text="")])
    >>> encoder.encode_batch(batch)["text"]
    ['a cat', '']
    """

    # On the class, so that a subclass may leave out super().__init__().
    _encoded_sample_type: type[Any] | None = None
    _raw_batch_type: type[Any] | None = None
    _batch_type: type[Any] | None = None

    def __init__(
        self,
        *,
        encoded_sample_type: type[T_encoded_sample] | None = None,
        raw_batch_type: type[T_raw_batch] | None = None,
        batch_type: type[T_batch] | None = None,
    ) -> None:
        self._encoded_sample_type = encoded_sample_type
        self._raw_batch_type = raw_batch_type
        self._batch_type = batch_type

    @noop_hook(unless="_encoded_sample_type")
    @stateless
    def encode_sample(self, sample: T_sample) -> Any:
        """Make an ``encoded_sample_type`` of a sample."""
        wanted = self._encoded_sample_type
        return sample if wanted is None else as_type(sample, wanted)

    @library_hook
    @stateless
    def batch(self, samples: list[Any]) -> Any:
        """Make a ``raw_batch_type`` of samples."""
        wanted = self._raw_batch_type
        if wanted is None:
            return generic_batch(samples)
        from_samples: Callable[[list[Any]], Any] | None = getattr(wanted, "from_samples", None)
        return as_type(generic_batch(samples), wanted) if from_samples is None else from_samples(samples)

    @noop_hook(unless="_batch_type")
    @stateless
    def encode_batch(self, batch: Any) -> Any:
        """Make a ``batch_type`` of a batch."""
        wanted = self._batch_type
        return batch if wanted is None else as_type(batch, wanted)
