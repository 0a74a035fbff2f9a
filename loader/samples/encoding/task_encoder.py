"""Task encoders: the hooks of user code, from the crude sample to the batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from ...errors import EnergonError
from ..batching.collate import collate
from ..batching.empty_batch import empty_batch
from ..decoding.decoder import SampleDecoder
from ..hook_marks import stateless
from ..hooks import HookRng, alias_hook, current_cache, hook_context, library_hook, noop_hook
from ..sample_fields import as_type
from .cooking import Cooker, cook

T_sample = TypeVar("T_sample")
T_encoded_sample = TypeVar("T_encoded_sample")
T_raw_batch = TypeVar("T_raw_batch")
T_batch = TypeVar("T_batch")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PackedSamplesOutput(Generic[T]):
    """Groups of samples to pack, and samples that return to the packing buffer.

    Samples in neither are dropped, as with a plain list of groups.

    Args:
        groups: The groups; each becomes one packed sample.
        pushback: Samples that come first in the buffer when it is filled again. At least one sample of a full buffer
            must leave it. In the last buffers of a pass, which get no new samples, pushed-back samples come again as
            long as each selection takes some of them.

    >>> def pairs(samples):
    ...     whole = len(samples) // 2 * 2
    ...     groups = [samples[start : start + 2] for start in range(0, whole, 2)]
    ...     return PackedSamplesOutput(groups, pushback=samples[whole:])
    >>> pairs(["a", "b", "c"])
    PackedSamplesOutput(groups=[['a', 'b']], pushback=['c'])
    """

    groups: Iterable[Iterable[T]]
    pushback: Iterable[T] = ()


class TaskEncoder(Generic[T_sample, T_encoded_sample, T_raw_batch, T_batch]):
    """Base of task encoders: override the hooks that you need.

    The hooks, in the order of their calls: ``cook_crude_sample``, ``preencode_sample`` or ``encode_sample``, with
    packing ``select_samples_to_pack``, ``postencode_sample``, with packing ``pack_selected_samples``,
    ``batch_group_criterion``, ``batch``, ``encode_batch``. A hook that is not overridden costs nothing: no stage is
    built for it. Any hook may raise :class:`~loader.errors.SkipSample` to skip its sample or batch. A hook that returns
    samples or batches may be a generator of several.

    A subclass need not call ``super().__init__()``.

    Attributes:
        decoder: Decodes the parts of samples; None keeps them as bytes.
        cookers: Build samples from crude ones.
        __default_failure_tolerance__: Consecutive failures of a hook that stop the run, unless
            ``@stateless(failure_tolerance=…)`` sets another number for that hook; 0 allows 20,000.

    >>> class Lower(TaskEncoder):
    ...     def encode_sample(self, sample):
    ...         return sample | {"text": sample["text"].lower()}
    >>> Lower().encode_sample({"text": "A Cat"})
    {'text': 'a cat'}
    """

    decoder: SampleDecoder | None = SampleDecoder()
    cookers: ClassVar[Sequence[Cooker]] = ()
    __default_failure_tolerance__: ClassVar[int] = 100

    @library_hook
    def cook_crude_sample(self, sample: dict[str, Any], *args: Any, **aux: Any) -> Any:
        """Build a sample from a crude one; by default, with the first of ``cookers`` that matches it.

        An overriding hook with parameters named ``cooker`` and ``aux``, as code written for megatron-energon has,
        receives the cooker that matches, and the stores as a dict.

        Args:
            sample: The crude sample, a dict of its parts.
            args: The cooker to use and a dict of the stores, from such a hook.
            aux: The auxiliary stores of its dataset by name, ``primary`` (all parts of its own dataset) and ``cache``.

        Raises:
            ConfigError: There are cookers, and none matches this sample.
        """
        if not args and "cooker" not in aux:
            return cook(sample, self.cookers, aux)
        given = dict(zip(("cooker", "aux"), args, strict=False)) | aux
        chosen, stores = given.pop("cooker", None), given.pop("aux", None)
        return cook(sample, self.cookers if chosen is None else (chosen,), {**(stores or {}), **given})

    @noop_hook()
    @stateless
    def encode_sample(self, sample: T_sample) -> Any:
        """Encode one sample: tokenise its text, crop its picture …; by default, return it."""
        return sample

    @alias_hook("encode_sample")
    def preencode_sample(self, sample: T_sample) -> Any:
        """Encode a sample before packing, or as the first of two steps; by default, this is ``encode_sample``.

        Without packing, an encoder that overrides ``encode_sample`` as well has only that hook called. The packing
        buffer keeps the result in memory, so load large values in ``postencode_sample``.
        """

    @noop_hook()
    @stateless
    def postencode_sample(self, sample: Any) -> Any:
        """Encode a sample that was selected for packing, or without packing each sample; by default, return it."""
        return sample

    @noop_hook()
    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]] | PackedSamplesOutput[Any]:
        """Partition buffered samples into groups to pack.

        Args:
            samples: ``packing_buffer_size`` samples, fewer at the end of a pass, or after the method failed for more.

        Returns:
            Groups of these objects, not of copies. A sample in no group is skipped. A
            :class:`~loader.samples.encoding.task_encoder.PackedSamplesOutput` also has ``pushback``: samples that
            return to the buffer before it is filled again.
        """
        raise NotImplementedError(
            f"samples are to be packed, but {type(self).__name__} does not define select_samples_to_pack"
        )

    @noop_hook()
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        """Pack a group of samples into one sample."""
        raise NotImplementedError(
            f"samples are to be packed, but {type(self).__name__} does not define pack_selected_samples"
        )

    @noop_hook()
    def batch_group_criterion(self, sample: Any) -> tuple[Hashable, int | None]:
        """Return the group of a sample and the batch size of that group.

        Returns:
            A key, so that only samples with equal keys share a batch, and the size of these batches, equal for all
            samples with this key; None means the run's ``batch_size``.
        """
        raise NotImplementedError(
            f"samples are to be grouped, but {type(self).__name__} does not define batch_group_criterion"
        )

    @library_hook
    @stateless
    def batch(self, samples: list[Any]) -> Any:
        """Build a batch from samples; by default with :func:`~loader.samples.batching.collate.generic_batch`."""
        return collate(samples)

    @noop_hook()
    @stateless
    def encode_batch(self, batch: Any) -> Any:
        """Encode a batch; by default, return it."""
        return batch

    @library_hook
    def padding_batch(self, batch: Any) -> Any:
        """Build the padding that ``pad_ranks=True`` yields on a rank whose data has ended.

        It is called once, in the process of the rank, and each step gets a copy of the result, which the library marks:
        :func:`~loader.samples.batching.batch.is_padding`. Override it if the model cannot take an empty batch: return
        ``batch`` with a loss mask of zeros, for example.

        Args:
            batch: The first micro-batch of the pass.

        Returns:
            By default, a batch of the same structure without samples:
            :func:`~loader.samples.batching.batch.empty_batch`.
        """
        return empty_batch(batch)

    @library_hook
    def build_train_datasets(
        self,
        *,
        datasets: Any,
        worker_config: Any,
        batch_size: int | None,
        batch_drop_last: bool = False,
        packing_buffer_size: int | None = None,
        virtual_epoch_length: int = 0,
        shuffle_buffer_size: int | None = None,
        blend_mode: Any = None,  # noqa: ARG002 - documented
        repeat: bool = True,
        even_ranks: bool = False,
        planning: Any = None,
    ) -> Any:
        """Build the chain of stages for training; override it to build another chain.

        Args:
            datasets: The datasets of the run, a :class:`~loader.training.datasets.run_datasets.LoadedDatasets`.
            worker_config: Ranks, workers and lanes of the run.
            batch_size: As in ``get_train_dataset``, as all arguments that are not listed here.
            blend_mode: The kind of mix, which the datasets have as well; only overriding methods receive it.
            planning: The micro-batches or packs that are planned from costs; None plans none.
        """
        return datasets.train_chain(
            self,
            worker_config=worker_config,
            batch_size=batch_size,
            batch_drop_last=batch_drop_last,
            packing_buffer_size=packing_buffer_size,
            virtual_epoch_length=virtual_epoch_length,
            shuffle_buffer_size=shuffle_buffer_size,
            repeat=repeat,
            even_ranks=even_ranks,
            planning=planning,
        )

    @library_hook
    def build_val_datasets(
        self,
        *,
        datasets: Any,
        worker_config: Any,
        batch_size: int | None,
        batch_drop_last: bool = False,
        packing_buffer_size: int | None = None,
        limit: int | None = None,
        even_ranks: bool = False,
        pad_ranks: bool = False,
        planning: Any = None,
    ) -> Any:
        """Build the chain of stages for validation; override it to build another chain.

        Args:
            datasets: As in :meth:`build_train_datasets`.
            worker_config: Ranks, workers and lanes of the run.
            batch_size: As in ``get_val_dataset``, as all arguments that are not listed here.
            planning: As in :meth:`build_train_datasets`.
        """
        return datasets.val_chain(
            self,
            worker_config=worker_config,
            batch_size=batch_size,
            batch_drop_last=batch_drop_last,
            packing_buffer_size=packing_buffer_size,
            limit=limit,
            even_ranks=even_ranks,
            pad_ranks=pad_ranks,
            planning=planning,
        )

    @library_hook
    def build_cook_crude_sample(
        self,
        dataset: Any,
        *,
        worker_config: Any,  # noqa: ARG002 - documented
        subflavors: dict[str, Any],  # noqa: ARG002 - documented
        get_primary_aux: Callable[[], Any] | None = None,
        aux: dict[str, Any] | None = None,
    ) -> Any:
        """Build the stage that cooks crude samples, for an overridden ``build_train_datasets``.

        Args:
            dataset: The stage below.
            worker_config: Accepted for code written for megatron-energon: it is the dataset's.
            subflavors: Accepted for the same reason: the subflavors of the sample choose its cooker.
            get_primary_aux: Returns the store of all parts of the dataset, ``as_file_store`` of its factory.
            aux: The auxiliary stores by name.
        """
        return _stage_builder().cook_crude_sample(self, dataset, get_primary_aux=get_primary_aux, aux=aux)

    @library_hook
    def build_encode_sample(self, dataset: Any, *, worker_config: Any) -> Any:  # noqa: ARG002 - documented
        """Build the stage that encodes samples, for an overridden ``build_train_datasets``.

        Args:
            dataset: The stage below.
            worker_config: Accepted for code written for megatron-energon: it is the dataset's.
        """
        return _stage_builder().encode_sample(self, dataset)

    @library_hook
    def build_batch(
        self,
        dataset: Any,
        *,
        batch_size: int | None,
        batch_drop_last: bool = False,
        packing_buffer_size: int | None = None,
        worker_config: Any,  # noqa: ARG002 - documented
    ) -> Any:
        """Build the stages that pack, batch and encode batches, for an overridden ``build_train_datasets``.

        Args:
            dataset: The stage below.
            batch_size: Samples of a micro-batch; None yields single samples.
            batch_drop_last: Drop the last batch of a pass if it is smaller.
            packing_buffer_size: Samples that ``select_samples_to_pack`` chooses from; None does not pack.
            worker_config: Accepted for code written for megatron-energon: it is the dataset's.
        """
        return _stage_builder().batch(
            self,
            dataset,
            batch_size=batch_size,
            drop_last=batch_drop_last,
            packing_buffer_size=packing_buffer_size,
        )

    @property
    def current_batch_index(self) -> int | None:
        """Index of the current micro-batch in the run.

        Raises:
            EnergonError: No hook is running.
        """
        return hook_context().batch_index

    @property
    def current_sample_index(self) -> int | None:
        """Index of the current sample.

        Raises:
            EnergonError: No hook is running.
        """
        return hook_context().sample_index

    @property
    def rng(self) -> HookRng:
        """Random generators of the running hook: ``rng.torch``, ``rng.torch_cuda``, ``rng.numpy``, ``rng.random``.

        They are seeded for each micro-batch, or for each call with ``@stateless(restore_task_encoder_seeds=True)``. So
        the numbers depend neither on workers nor on the global generators, and a resumed run draws the same ones.

        Raises:
            EnergonError: No hook is running.
        """
        return hook_context().rng

    @property
    def cache(self) -> Any:
        """The cache pool of the run.

        Raises:
            EnergonError: No hook is running, or the run has no cache pool.
        """
        return current_cache()


class DefaultTaskEncoder(TaskEncoder[T_sample, T_encoded_sample, T_raw_batch, T_batch]):
    """Task encoder that needs no subclass: samples stay unchanged, and batches are built field by field.

    Args:
        encoded_sample_type: Result type of ``encode_sample``, built from the sample's fields of the same names.
        raw_batch_type: Result type of ``batch``, built by its ``from_samples`` if it has one, as a
            :class:`~loader.samples.batching.batch.Batch` has, otherwise from the batch's fields.
        batch_type: Result type of ``encode_batch``, built from the batch's fields.

    Each of them is a dataclass, or ``dict``, which takes all fields.

    >>> from loader import CaptioningSample, TextSample
    >>> encoder = DefaultTaskEncoder(batch_type=dict)
    >>> batch = encoder.batch([TextSample(__key__="s.tar/0", text="a cat"), TextSample(__key__="s.tar/1", text="")])
    >>> encoder.encode_batch(batch)["text"]
    ['a cat', '']
    """

    # On the class, so that a subclass need not call super().__init__().
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
        """Convert a sample to ``encoded_sample_type``."""
        wanted = self._encoded_sample_type
        return sample if wanted is None else as_type(sample, wanted)

    @library_hook
    @stateless
    def batch(self, samples: list[Any]) -> Any:
        """Build a ``raw_batch_type`` from samples."""
        wanted = self._raw_batch_type
        if wanted is None:
            return collate(samples)
        from_samples: Callable[[list[Any]], Any] | None = getattr(wanted, "from_samples", None)
        return as_type(collate(samples), wanted) if from_samples is None else from_samples(samples)

    @noop_hook(unless="_batch_type")
    @stateless
    def encode_batch(self, batch: Any) -> Any:
        """Convert a batch to ``batch_type``."""
        wanted = self._batch_type
        return batch if wanted is None else as_type(batch, wanted)


_stage_builders: list[Any] = []
"""The ``EncoderStages`` of the layer of training: stages are above this layer."""


def set_stage_builder(builder: Any) -> None:
    """Set the object whose methods build the stages of the ``build_…`` methods of all task encoders."""
    _stage_builders[:] = [builder]


def _stage_builder() -> Any:
    if not _stage_builders:
        raise EnergonError(
            "stages can be built once a dataset is open",
            hint="call build_batch, build_encode_sample and build_cook_crude_sample in build_train_datasets",
        )
    return _stage_builders[0]
