"""From the bytes of a sample's parts to a ``Sample``, as the dataset says."""

from __future__ import annotations

from typing import Any

from ..errors import ConfigError, SkipSample, TrustError
from ..samples.types import CrudeSample
from .endless_skips import EndlessSkips
from .joined_leaf import JoinedLeaf
from .lane import Lane
from .leaf import RawSample
from .read import ReadDataset
from .ref import Ref
from .restore_key import stamp
from .stage import SKIPPED, Running, SavableDataset, State

__all__ = ["BuildDataset"]


class BuildDataset(SavableDataset[Any]):
    """Decode samples and fill their fields.

    Args:
        dataset: The reader.
        names_leaves: Note on crude samples which leaf they are from, for cooking.
    """

    def __init__(self, dataset: ReadDataset, *, names_leaves: bool = False) -> None:
        super().__init__(dataset, name="decode")
        self.leaves = dataset.leaves
        self.names_leaves = names_leaves

    @property
    def keeps_positions(self) -> bool:
        return True

    def settings(self) -> dict[str, Any]:
        decoders = {repr(leaf.decoder) for leaf in self.leaves}
        return {"decoder": decoders.pop()} if len(decoders) == 1 else {}

    def open(self, lane: Lane, state: State) -> Running:
        return _BuildRunning(self, lane, state)


class _BuildRunning:
    def __init__(self, definition: BuildDataset, lane: Lane, state: State) -> None:
        self._source = definition.sources[0].open(lane, state)
        self._leaves = definition.leaves
        self._joins = any(isinstance(leaf, JoinedLeaf) for leaf in definition.leaves)
        self._names_leaves = definition.names_leaves
        self._lane = lane
        self._number, self._context, self._failures = lane.number, lane.context, lane.failures
        self._stage = lane.path + definition.key
        self._skips = EndlessSkips("load_sample or sample_loader", lane.number)
        self.state = self._source.state

    def next(self) -> tuple[Any, Ref]:
        raw, ref = self._source.next()
        if raw is SKIPPED:
            return raw, ref
        try:
            sample = self._build(raw, ref)
        except (ConfigError, TrustError):
            raise
        except SkipSample:
            self._skips.add()
            return SKIPPED, ref
        except Exception as error:
            self._failures.failed("decode", error, self._as_handlers_know_it(raw))
            return SKIPPED, ref
        if self._skips.count:
            self._skips.count = 0
        if self._failures.pending:
            self._failures.succeeded("decode")
        return sample, ref

    def _build(self, raw: RawSample, ref: Ref) -> Any:
        sample = self._leaves[raw[0]].build(raw, (self._stage, self._number, self._context.batch_index, ref))
        if self._joins:  # a joiner is the user's own, and need not have handed it on
            stamp(sample, self._stage, self._lane, ref)
        if self._names_leaves and isinstance(sample, CrudeSample):
            sample.leaf = raw[0]
        return sample

    def _as_handlers_know_it(self, raw: RawSample) -> dict[str, Any]:
        number, _, shard, key, parts = raw
        there = parts if isinstance(parts, dict) else {}
        return {**there, "__key__": f"{shard}/{key}", "__sources__": self._leaves[number].sources(raw)}

    def load(self, ref: Ref) -> Any:
        raw = self._source.load(ref)
        return raw if raw is SKIPPED else self._build(raw, ref)
