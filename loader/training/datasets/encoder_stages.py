"""The methods of a task encoder as stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...pipeline.contract.stage import SavableDataset, as_stage
from ...pipeline.stages.cook import CookSample, GivenStores, cooking_hooks
from ...pipeline.stages.map import MapDataset
from ...samples.encoding.cooking import needs_primary
from ...samples.hooks import is_default
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
        primary = None
        if get_primary_aux is not None and any(map(needs_primary, cooking_hooks(encoder))):
            primary, reader = get_primary_aux(), as_stage(dataset)
            while reader.inputs:
                reader = reader.inputs[0]
            for source in reader.read_sources[:1]:
                primary = source.recipe.stores.decoded(primary)
        cook = CookSample(encoder, {None: GivenStores(aux or {}, primary)})
        return MapDataset(dataset, cook, name="cook")

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
