"""Build the chain of stages, from the reader to micro-batches, in the order in which samples pass them.

Only requested stages are built: a hook that the task encoder does not override costs no call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigError
from ...pipeline.contract.hook import makes_several
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.reading.decode import DecodeDataset
from ...pipeline.reading.order_plan import OrderPlan
from ...pipeline.reading.read import ReadDataset
from ...pipeline.reading.source import Source
from ...pipeline.stages.batch import BatchDataset
from ...pipeline.stages.cook import CookDataset, uses_stores
from ...pipeline.stages.group_batch import GroupBatchDataset
from ...pipeline.stages.map import MapDataset
from ...pipeline.stages.packing import PackingDataset
from ...samples.encoding.task_encoder import TaskEncoder
from ...samples.hooks import is_default, is_library_hook

__all__ = ["ChainOptions", "build_chain", "build_single_samples", "encoding_hooks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOptions:
    """Options of the stages above the reader.

    Attributes:
        task_encoder: The user's hooks.
        batch_size: Samples of a micro-batch; None yields single samples.
        drop_last: Drop a last batch of fewer samples.
        packing_buffer_size: Samples that ``select_samples_to_pack`` chooses from; None does not pack.
        repeats: The order has no end.
        worker_config: Ranks, workers and lanes of the run.
    """

    task_encoder: TaskEncoder[Any, Any, Any, Any]
    batch_size: int | None
    drop_last: bool
    packing_buffer_size: int | None
    repeats: bool
    worker_config: WorkerConfig

    def __post_init__(self) -> None:
        if self.batch_size is not None and self.batch_size < 1:
            raise ConfigError(f"expected a batch_size of at least 1, or None, found {self.batch_size}")
        if self.packing_buffer_size is not None and self.packing_buffer_size < 1:
            raise ConfigError(
                f"expected a packing_buffer_size of at least 1, or None, found {self.packing_buffer_size}"
            )
        for name in ("select_samples_to_pack", "pack_selected_samples"):
            if self.packing_buffer_size is not None and is_default(getattr(self.task_encoder, name)):
                raise ConfigError(
                    f"samples are to be packed, but {type(self.task_encoder).__name__} does not define {name}",
                    hint="define it, or pass packing_buffer_size=None",
                )

    @property
    def groups(self) -> bool:
        """True if the samples of a batch are of one group."""
        return not is_default(self.task_encoder.batch_group_criterion)

    @property
    def deal(self) -> int | None:
        """Number of samples of a pass that make a micro-batch; None if it is not known ahead."""
        return None if self.repeats else self.batch_samples

    @property
    def batch_samples(self) -> int | None:
        """Number of samples that make a micro-batch; None if it is not known ahead."""
        encoder = self.task_encoder
        hooks = [encoder.cook_crude_sample, *(cooker.cook for cooker in encoder.cookers)]
        hooks += [hook for _, hook in encoding_hooks(encoder)]
        is_known = not any(map(makes_several, hooks))
        if self.packing_buffer_size is not None or self.groups or not is_known:
            return None
        return self.batch_size or 1


def build_chain(sources: Sequence[Source], plan: OrderPlan, options: ChainOptions) -> SavableDataset[Any]:
    """Build the chain from the reader to micro-batches."""
    encoder = options.task_encoder
    chain = _samples(ReadDataset(sources, plan, worker_config=options.worker_config), encoder)
    if options.packing_buffer_size is not None:
        chain = _mapped(chain, encoder.preencode_sample, "preencode_sample")
        chain = _packed(chain, encoder, options.packing_buffer_size)
    else:
        chain = _encoded(chain, encoder)
    if options.batch_size is None and not options.groups:
        return chain
    chain = _batched(chain, options)
    if is_default(encoder.encode_batch):
        return chain
    encoded = MapDataset[Any](chain, encoder.encode_batch, name="encode_batch")
    encoded.takes_batches = True
    return encoded


def build_single_samples(
    reader: ReadDataset, encoder: TaskEncoder[Any, Any, Any, Any], *, packs: bool = False
) -> SavableDataset[Any]:
    """Build the chain up to encoded samples, or, if it packs, up to the packing buffer."""
    if packs:
        return _mapped(_samples(reader, encoder), encoder.preencode_sample, "preencode_sample")
    return _encoded(_samples(reader, encoder), encoder)


def encoding_hooks(encoder: TaskEncoder[Any, Any, Any, Any]) -> list[tuple[str, Callable[..., Any]]]:
    """Return the names and hooks that encode samples without packing, in the order of their calls.

    ``preencode_sample`` is ``encode_sample`` unless it is overridden. An encoder that overrides both has separate code
    for runs without packing: there only ``encode_sample`` is called.
    """
    encode, pre, post = encoder.encode_sample, encoder.preencode_sample, encoder.postencode_sample
    if not is_default(encode):
        hooks = [("encode_sample", encode)] + ([("postencode_sample", post)] if pre == encode else [])
    else:
        hooks = [("preencode_sample", pre), ("postencode_sample", post)]
    return [(name, hook) for name, hook in hooks if not is_default(hook)]


def _encoded(chain: SavableDataset[Any], encoder: TaskEncoder[Any, Any, Any, Any]) -> SavableDataset[Any]:
    for name, hook in encoding_hooks(encoder):
        below, chain = chain, _mapped(chain, hook, name)
        if name != "encode_sample":
            # Earlier versions did not build these stages: stages above them keep the keys of saved states.
            chain.depth = below.depth
    return chain


def _samples(reader: ReadDataset, encoder: TaskEncoder[Any, Any, Any, Any]) -> SavableDataset[Any]:
    cooks = encoder.cookers or not is_library_hook(encoder.cook_crude_sample)
    cooks = bool(cooks) and any(source.is_crude for source in reader.sources)
    if not cooks:
        return DecodeDataset(reader)
    stores = [source.stores for source in reader.sources]
    return CookDataset(DecodeDataset(reader, names_sources=uses_stores(encoder, stores)), encoder, stores)


def _mapped(chain: SavableDataset[Any], hook: Callable[..., Any], name: str) -> SavableDataset[Any]:
    return chain if is_default(hook) else MapDataset(chain, hook, name=name)


def _packed(
    chain: SavableDataset[Any], encoder: TaskEncoder[Any, Any, Any, Any], buffer_size: int
) -> SavableDataset[Any]:
    post = encoder.postencode_sample
    return PackingDataset(
        chain,
        buffer_size,
        pre_packer=encoder.select_samples_to_pack,
        final_packer=encoder.pack_selected_samples,
        sample_encoder=None if is_default(post) else post,
    )


def _batched(chain: SavableDataset[Any], options: ChainOptions) -> SavableDataset[Any]:
    encoder = options.task_encoder
    if options.groups:
        return GroupBatchDataset(
            chain,
            options.batch_size,
            encoder.batch_group_criterion,
            batcher=encoder.batch,
            drop_last=options.drop_last,
        )
    if options.batch_size is None:
        return chain
    return BatchDataset(
        chain,
        options.batch_size,
        encoder.batch,
        drop_last=options.drop_last,
        at_positions=options.deal is not None,
        name="batch",
    )
