"""A stage that decodes samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import ConfigError, SkipSample, TrustError
from ...samples.decoding.decoder import AnyDecoder, whole_sample_decoder
from ...samples.types import CrudeSample
from ..contract.item_id import ItemId
from ..contract.lane import Lane, set_restore_key
from ..contract.running import StageTraits
from ..contract.stage import SKIPPED, Running, SavableDataset, State
from ..measuring.counts import DECODE, STORAGE
from ..measuring.item_sources import datasets_of
from ..measuring.recorder import register, skipped_items
from .joined_source import JoinedSource
from .source import Raw, Source


class DecodeDataset(SavableDataset[Any]):
    """Decode samples and fill their fields.

    Args:
        sources: The datasets by their numbers in raw samples; by default the reader's.
    """

    traits = StageTraits(one_to_one=True, never_more=True)

    def __init__(
        self,
        dataset: SavableDataset[Raw],
        *,
        sources: Sequence[Source] | None = None,
        names_sources: bool = False,
    ) -> None:
        super().__init__(dataset, name="decode")
        read_sources = tuple(dataset.read_sources)
        self.sources: tuple[Source, ...] = read_sources if sources is None else tuple(sources)
        self.names_sources = names_sources
        self.size_metrics: Mapping[str, Callable[[Any], float]] = {}  # of its samples, for statistics
        self.own_sources = read_sources or self.sources  # the others are decoded by other stages

    def settings(self) -> dict[str, Any]:
        decoders = {_decoder_name(source.recipe.decoder) for source in self.own_sources}
        return {"decoder": decoders.pop()} if len(decoders) == 1 else {}

    def open(self, lane: Lane, state: State) -> Running:
        return _DecodeRunning(self, lane, state)


def _decoder_name(decoder: AnyDecoder | None) -> str:
    """Return a decoder's name for comparison with saved states; the ``repr`` of a function has an address."""
    if whole_sample_decoder(decoder) is None:
        return repr(decoder)
    return str(getattr(decoder, "__qualname__", type(decoder).__qualname__))


class _DecodeRunning:
    def __init__(self, definition: DecodeDataset, lane: Lane, state: State) -> None:
        self._upstream = definition.inputs[0].open(lane, state)
        self._recipes = [source.recipe for source in definition.sources]
        self._names_sources = definition.names_sources
        self._lane, self._number, self._context = lane, lane.number, lane.context
        self._stage = lane.path + definition.key
        # Attributes of this object, so that they can be replaced while calls are timed.
        self._read = self._upstream.next
        self._build: Callable[[Any, tuple[Any, ...]], Any] = self._build_any
        if any(isinstance(source, JoinedSource) for source in definition.own_sources):
            self._build = self._build_joined
        elif len(self._recipes) == 1 and not definition.names_sources:
            self._build = self._recipes[0].build
        self._failures = lane.failures
        self._skips = lane.failures.skips_of("load_sample or sample_loader")
        self.state = self._upstream.state
        self._skipped = skipped_items(lane)
        register(lane, STORAGE, self, "_read")
        register(lane, DECODE, self, "_build", result_sizes=definition.size_metrics)

    def _build_any(self, raw: Raw, restore_key: tuple[Any, ...]) -> Any:
        sample = self._recipes[raw[0]].build(raw, restore_key)
        if self._names_sources and isinstance(sample, CrudeSample):
            sample.source = raw[0]
        return sample

    def _build_joined(self, raw: Raw, restore_key: tuple[Any, ...]) -> Any:
        """Build a sample where some are joined: a user's joiner may not have copied the key."""
        sample = self._build_any(raw, restore_key)
        set_restore_key(sample, self._stage, self._lane, restore_key[-1])
        return sample

    def next(self) -> tuple[Any, ItemId]:
        raw, item_id = self._read()
        if raw is SKIPPED:
            return raw, item_id
        try:
            sample = self._build(raw, (self._stage, self._number, self._context.batch_index, item_id))
        except (ConfigError, TrustError):
            raise
        except SkipSample:
            self._skipped.append(item_id)
            self._skips.add()
            return SKIPPED, item_id
        except Exception as error:
            self._skipped.append(item_id)
            datasets = datasets_of(self._lane, item_id)
            self._failures.failed("decode", error, self._failed_sample(raw), datasets=datasets)
            return SKIPPED, item_id
        # Most samples follow a success, which needs no note.
        if self._skips.count or self._failures.pending:
            self._skips.count = 0
            self._failures.succeeded("decode", datasets_of(self._lane, item_id))
        return sample, item_id

    def _failed_sample(self, raw: Raw) -> dict[str, Any]:
        return self._recipes[raw.source].named(raw)

    def load(self, item_id: ItemId) -> Any:
        raw = self._upstream.load(item_id)
        if raw is SKIPPED:
            return raw
        try:
            return self._build(raw, (self._stage, self._number, self._context.batch_index, item_id))
        except Exception as error:
            self._failures.note_rebuilt(error, "decode", self._failed_sample(raw))
            raise
