"""Stages for the ``build_…`` methods of task encoders, from which users' code builds its own chains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...pipeline.contract.stage import SavableDataset
from ...pipeline.stages.batch import BatchDataset
from ...pipeline.stages.cook import CookingHook, full_key
from ...pipeline.stages.group_batch import GroupBatchDataset
from ...pipeline.stages.map import MapDataset
from ...pipeline.stages.packing import PackingDataset
from ...samples.encoding.cooking import needs_primary
from ...samples.hooks import is_default
from ...samples.types import CrudeSample
from ...stores.aux_store import PrimaryFileStore
from ...stores.file_store import FileStore


class EncoderStages:
    """Builds stages with the hooks of a task encoder, one method for each ``build_…`` method of the encoder."""

    def cook_crude_sample(
        self,
        encoder: Any,
        dataset: SavableDataset[Any],
        *,
        get_primary_aux: Callable[[], FileStore[Any]] | None,
        aux: Mapping[str, FileStore[Any]] | None,
    ) -> SavableDataset[Any]:
        """Build the stage that cooks crude samples; other samples pass."""
        return MapDataset(dataset, _CookWith(encoder, get_primary_aux, aux or {}), name="cook")

    def encode_sample(self, encoder: Any, dataset: SavableDataset[Any]) -> SavableDataset[Any]:
        """Build the stage of ``encode_sample``, or of ``preencode_sample`` if only that is overridden."""
        if not is_default(encoder.encode_sample):
            return MapDataset(dataset, encoder.encode_sample, name="encode_sample")
        pre = encoder.preencode_sample
        return dataset if is_default(pre) else MapDataset(dataset, pre, name="preencode_sample")

    def batch(
        self,
        encoder: Any,
        dataset: SavableDataset[Any],
        *,
        batch_size: int | None,
        drop_last: bool,
        packing_buffer_size: int | None,
    ) -> SavableDataset[Any]:
        """Build the stages that pack or encode a second time, batch, and encode batches."""
        post = None if is_default(encoder.postencode_sample) else encoder.postencode_sample
        if packing_buffer_size is not None:
            dataset = PackingDataset(
                dataset,
                packing_buffer_size,
                pre_packer=encoder.select_samples_to_pack,
                final_packer=encoder.pack_selected_samples,
                sample_encoder=post,
            )
        elif post is not None and (
            is_default(encoder.encode_sample) or encoder.preencode_sample == encoder.encode_sample
        ):
            dataset = MapDataset(dataset, post, name="postencode_sample")
        if not is_default(encoder.batch_group_criterion):
            dataset = GroupBatchDataset(
                dataset, batch_size, encoder.batch_group_criterion, batcher=encoder.batch, drop_last=drop_last
            )
        elif batch_size is None:
            return dataset
        else:
            dataset = BatchDataset(dataset, batch_size, encoder.batch, drop_last=drop_last, name="batch")
        hook = encoder.encode_batch
        if is_default(hook):
            return dataset
        encoded = MapDataset[Any](dataset, hook, name="encode_batch")
        encoded.takes_batches = True
        return encoded


class _CookWith:
    """Function that cooks with the stores that a user's code passed."""

    def __init__(
        self, encoder: Any, get_primary_aux: Callable[[], FileStore[Any]] | None, aux: Mapping[str, FileStore[Any]]
    ) -> None:
        self.__name__ = "cook_crude_sample"
        self._call = CookingHook(encoder)
        self._aux = dict(aux)
        hooks = [encoder.cook_crude_sample, *(cooker.cook for cooker in encoder.cookers)]
        needs = get_primary_aux is not None and any(map(needs_primary, hooks))
        self._primary = get_primary_aux() if get_primary_aux is not None and needs else None

    def __call__(self, sample: Any) -> Any:
        if not isinstance(sample, CrudeSample):
            return sample
        if self._primary is None:
            return self._call(sample, self._aux)
        return self._call(sample, {**self._aux, "primary": PrimaryFileStore(self._primary, full_key(sample))})
