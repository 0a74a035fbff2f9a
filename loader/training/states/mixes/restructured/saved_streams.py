"""The datasets of a state, whatever blends are above them: the stream of each, and its position in every lane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .....errors import StateError
from .....order import GONE, LaneMixes, Mix
from .....pipeline.contract.lane import child_seed
from .....pipeline.contract.stage import State
from .....pipeline.contract.state_schema import COUNT
from .....pipeline.reading.planned_schedule import saved_schedule
from ...mix_history import MixChanges, reader_history, stage_changes, streams_of
from ..differences import each_setting, shares
from ..leaves import Leaf, leaves_of

READ = "0 read"
"""Key of a reader in a state."""

Path = tuple[int, ...]
"""The origins of the inputs of blends that lead to a stage."""


@dataclass(slots=True, kw_only=True)
class SavedStream:
    """A dataset of a state.

    Attributes:
        leaf: The dataset.
        share: Its share of the mix.
        stream: The numbers that seed its order.
        consumed: Lane → the number of samples that were read of it.
    """

    leaf: Leaf
    share: float
    stream: Path
    consumed: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class SavedReader:
    """A reader of a state.

    Attributes:
        path: The origins of the inputs of blends that lead to it.
        settings: Its settings.
        streams: Its datasets by their origins.
        mixes: Lane → its mixes.
        read: Lane → the samples that it read, those of datasets that left the mix included.
    """

    path: Path
    settings: Mapping[str, Any]
    streams: dict[int, SavedStream]
    mixes: dict[int, LaneMixes]
    read: dict[int, int]
    origins: tuple[int, ...]

    def place(self, lane: int, position: int) -> tuple[SavedStream | None, int]:
        """Return the dataset of a sample, None if it left the mix, and the sample's position in its stream."""
        source, found = self.mixes[lane].locate(position, position + 1)
        return (None, 0) if source[0] == GONE else (self.streams[self.origins[int(source[0])]], int(found[0]))


def is_blend(identity: Any) -> bool:
    """Return True for the description of a blend that a metadataset defines."""
    return bool(identity[0] == "blend")


def is_blend_key(key: Any) -> bool:
    """Return True for the key of such a blend in states and item ids."""
    return isinstance(key, str) and key.endswith(" blend")


def saved_readers(
    identity: Any,
    lanes: Mapping[int, State],
    *,
    changes: MixChanges,
    seed: int,
    count: int,
    share: float = 1.0,
    path: Path = (),
) -> Iterator[SavedReader]:
    """Yield the readers of a state.

    Args:
        identity: The description of a chain.
        lanes: The states of its lanes.
        changes: The earlier changes of the mix.
        seed: The seed of the stages here.
        count: L of the run.
        share: The share of the chain in the whole mix.
        path: The origins of the inputs of blends that lead to it.

    Raises:
        StateError: A position is damaged.
        LookupError: A stage that is no blend has several inputs.
    """
    if identity[0] == "read":
        yield _reader(identity, lanes, changes=changes, seed=seed, count=count, share=share, path=path)
        return
    inputs = identity[2:]
    if not is_blend(identity):
        if len(inputs) != 1:
            raise LookupError(identity[0])
        yield from saved_readers(inputs[0], lanes, changes=changes, seed=seed, count=count, share=share, path=path)
        return
    own = _blend_states(lanes)
    origins = _blend_origins(changes, "".join(f"{number}/" for number in path), len(inputs))
    parts = shares(identity[1]["weights"], share)
    for origin, upstream, part in zip(origins, inputs, parts, strict=True):
        inner = {lane: state.get(str(origin), {}) for lane, state in own.items()}
        yield from saved_readers(
            upstream,
            inner,
            changes=changes,
            seed=child_seed(seed, origin),
            count=count,
            share=part,
            path=(*path, origin),
        )


def _blend_states(lanes: Mapping[int, State]) -> dict[int, State]:
    return {
        lane: next((value for key, value in state.items() if is_blend_key(key)), {}) for lane, state in lanes.items()
    }


def _blend_origins(changes: MixChanges, path: str, count: int) -> list[int]:
    stages = {stage for entry in changes for stage in entry["stages"]}
    found = [
        changed[-1][1]["origins"]
        for stage in stages
        if stage.startswith(path)
        and is_blend_key(stage)
        and "/" not in stage[len(path) :]
        and (changed := stage_changes(changes, stage))
    ]
    return list(found[0]) if found else list(range(count))


def _reader(
    identity: Any, lanes: Mapping[int, State], *, changes: MixChanges, seed: int, count: int, share: float, path: Path
) -> SavedReader:
    settings = identity[1]
    leaves = leaves_of(settings, identity[2:])
    weights = each_setting(settings["weights"], len(leaves))
    schedule = saved_schedule(settings.get("schedule"), len(leaves))
    own = stage_changes(changes, "".join(f"{number}/" for number in path) + READ)
    history = reader_history(own)
    mixes: tuple[Mix, ...] = (Mix(tuple(range(len(leaves))), tuple(weights), schedule),)
    if history is not None:
        mixes = history.mixes(weights, schedule)
    known = streams_of(own)
    streams = {
        origin: SavedStream(leaf=leaf, share=part, stream=known.get(origin, (*path, origin)))
        for origin, leaf, part in zip(mixes[-1].origins, leaves, shares(weights, share), strict=True)
    }
    reader = SavedReader(
        path=path, settings=settings, streams=streams, mixes={}, read={}, origins=tuple(mixes[-1].origins)
    )
    for lane, state in lanes.items():
        ends = () if history is None else history.ends_of(lane)
        start = None if history is None else history.start_of(lane)
        position = state.get(READ, 0 if start is None else start.position)
        if not COUNT.accepts(position) or position < max((*ends, 0 if start is None else start.position)):
            raise StateError(f"this state is damaged: lane {lane} is at position {position!r}")
        one = LaneMixes(mixes, lane=lane, lanes=count, seed=seed, ends=ends, start=start)
        reader.mixes[lane], reader.read[lane] = one, position
        for origin, consumed in one.consumed(position).items():
            if origin in streams:
                streams[origin].consumed[lane] = int(np.int64(consumed))
    return reader
