"""The methods of a task encoder as stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...pipeline.contract.stage import SavableDataset
from ...pipeline.stages.cook import CookingHook, cooking_hooks, full_key
from ...pipeline.stages.map import MapDataset
from ...samples.encoding.cooking import needs_primary
from ...samples.hooks import is_default
from ...samples.types import CrudeSample
from ...stores.aux_store import PrimaryFileStore
from ...stores.file_store import FileStore
from .chain import ChainOptions, batched, encoding_hooks, packed


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
        options = ChainOptions(  # of a chain without end: built by hand, so the batches of a pass are not known ahead
            task_encoder=encoder,
            worker_config=dataset.worker_config,
            batch_size=batch_size,
            batch_drop_last=drop_last,
            packing_buffer_size=packing_buffer_size,
        )
        if packing_buffer_size is not None:
            dataset = packed(dataset, encoder, packing_buffer_size)
        elif any(name == "postencode_sample" for name, _ in encoding_hooks(encoder)):
            dataset = MapDataset(dataset, encoder.postencode_sample, name="postencode_sample")
        return batched(dataset, options)


class _CookWith:
    def __init__(
        self, encoder: Any, get_primary_aux: Callable[[], FileStore[Any]] | None, aux: Mapping[str, FileStore[Any]]
    ) -> None:
        self.__name__ = "cook_crude_sample"
        self._call = CookingHook(encoder)
        self._aux = dict(aux)
        needs = any(map(needs_primary, cooking_hooks(encoder)))
        self._primary = get_primary_aux() if get_primary_aux is not None and needs else None

    def __call__(self, sample: Any) -> Any:
        if not isinstance(sample, CrudeSample):
            return sample
        if self._primary is None:
            return self._call(sample, self._aux)
        return self._call(sample, {**self._aux, "primary": PrimaryFileStore(self._primary, full_key(sample))})
