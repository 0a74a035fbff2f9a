"""Turn the state of a lane into one of a chain with other blends: positions, and the ids of samples in buffers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from .....errors import StateError
from .....pipeline.contract.item_id import as_item_id, plain_item_id
from .....pipeline.contract.stage import SavableDataset, State
from .....pipeline.contract.state_schema import item_ids_in, map_item_ids
from .....pipeline.reading.read import ReadDataset
from .....pipeline.stages.blend import BlendDataset
from .saved_streams import READ, SavedReader, SavedStream, is_blend_key

Path = tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class NewSource:
    """A dataset of the new chain.

    Attributes:
        origin: Its number in its reader.
        saved: The dataset of the state that it continues; None for a new one.
    """

    origin: int
    saved: SavedStream | None = None


@dataclass(slots=True, kw_only=True)
class NewReader:
    """A reader of the new chain.

    Attributes:
        path: The origins of the inputs of blends that lead to it.
        reader: The reader.
        sources: Its datasets.
        gone: A number that is no origin of a dataset.
        held: Lane → the samples in buffers that were read before, the last one first: an origin, and a position in its
            stream.
    """

    path: Path
    reader: ReadDataset
    sources: list[NewSource]
    gone: int
    held: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def consumed(self, lane: int) -> list[int]:
        """Return for each dataset the samples that a lane has read."""
        return [0 if one.saved is None else one.saved.consumed.get(lane, 0) for one in self.sources]


class _Sample(NamedTuple):
    """A sample that waits in a buffer: its reader in the new chain, None if it is gone, and its place there."""

    reader: NewReader | None
    origin: int
    position: int


class StateWriter:
    """Writes the states of lanes.

    Args:
        chain: The new chain, whose outermost blend has the numbers of ``readers``.
        readers: Its readers.
        saved: The readers of the state.
        origins: Path of a blend → the numbers of its inputs.
        gone: A number that is no origin of an input of a blend.
    """

    def __init__(
        self,
        chain: SavableDataset[Any],
        readers: list[NewReader],
        saved: list[SavedReader],
        *,
        origins: Mapping[Path, tuple[int, ...]],
        gone: int,
    ) -> None:
        self._chain = chain
        self._readers = readers
        self._saved = {reader.path: reader for reader in saved}
        self._origins = origins
        self._gone = gone
        self._homes = {
            id(source.saved): (reader, source.origin)
            for reader in readers
            for source in reader.sources
            if source.saved is not None
        }
        self._stages = {stage.key: stage for stage in _stages(chain)}
        blends = [stage for stage in _stages(chain) if isinstance(stage, BlendDataset)]
        self._above = {stage.key for stage in _stages(chain) if not blends or _is_above(stage, blends[0])}

    def samples_read(self, lane: int, state: State) -> int:
        """Return the samples that all readers of a lane have read."""
        counted = next((value.get("read") for key, value in state.items() if is_blend_key(key)), None)
        return max(counted or 0, sum(reader.read.get(lane, 0) for reader in self._saved.values()))

    def base(self, reader: NewReader, lane: int, read: int) -> int:
        """Return the position at which a reader starts in a lane."""
        own = read if not reader.path else sum(reader.consumed(lane))
        return max(own, len(reader.held.get(lane, ())))

    def write(self, lane: int, state: State) -> State:
        """Return the state of a lane in the new chain, and note the samples of buffers in the readers.

        Raises:
            StateError: A buffer of the lane has no place in the new chain.
        """
        read = self.samples_read(lane, state)
        found = list(_entries(state))
        samples: list[_Sample] = []
        stripped = []
        for path, key, value in found:
            stage = self._stages.get(key)
            if stage is None or stage.entry_schema is None or stage.key == READ:
                continue
            ids = [self._strip(as_item_id(one), path, lane) for one in item_ids_in(value, stage.entry_schema)]
            if path and not ids:
                continue  # the empty buffer of a dataset
            stripped.append((stage, value, ids))
            samples += [sample for one in ids for sample in _samples(one)]
        for reader in self._readers:
            reader.held[lane] = list(
                dict.fromkeys(
                    (one.origin, one.position)
                    for one in samples
                    if one.reader is reader or (one.reader is None and not reader.path)
                )
            )
        positions = {reader.path: self.base(reader, lane, read) for reader in self._readers}
        new = self._nested(self._chain, (), positions, read) | {"made": state.get("made", 0)}
        for stage, value, ids in stripped:
            place = self._container(stage, ids, lane)
            if place is None:
                continue
            below = self._below(stage, place)
            wrapped = deque(plain_item_id(self._wrap(below, one, place, positions, lane)) for one in ids)
            container = self._state_at(new, place)
            if stage.key in container:
                raise _no_place(stage, lane)
            container[stage.key] = map_item_ids(value, stage.entry_schema, partial(_next_of, wrapped))
        return new

    def _strip(self, item_id: Any, path: Path, lane: int) -> Any:
        """Return an item id without blends, and samples instead of positions."""
        if not isinstance(item_id, tuple):
            reader = self._saved.get(path)
            if reader is None:
                return _Sample(None, self._gone, 0)
            saved, position = reader.place(lane, item_id)
            home = None if saved is None else self._homes.get(id(saved))
            return _Sample(None, self._gone, 0) if home is None else _Sample(*home, position)
        if item_id and isinstance(item_id[0], str):
            key, number, inner = item_id
            if is_blend_key(key):
                return self._strip(inner, (*path, number), lane)
            return key, number, self._strip(inner, path, lane)
        return [self._strip(one, path, lane) for one in item_id]

    def _container(self, stage: SavableDataset[Any], ids: list[Any], lane: int) -> Path | None:
        """Return the path of the state in which a stage has its entry; None if it has nothing to keep.

        Raises:
            StateError: The stage is below a blend, and buffers samples of several of its inputs.
        """
        if stage.key in self._above:
            return ()
        paths = {sample.reader.path for one in ids for sample in _samples(one) if sample.reader is not None}
        if not paths:
            return None
        if len(paths) > 1:
            raise _no_place(stage, lane)
        [path] = paths
        depths = [depth for depth in range(len(path) + 1) if self._has_stage(path[:depth], stage.key)]
        return path[: depths[0]]

    def _has_stage(self, path: Path, key: str) -> bool:
        """Return True if a stage is in the state at a path, not in one nested in it."""
        return any(stage.key == key for stage in _linear(self._at(path)))

    def _at(self, path: Path) -> SavableDataset[Any]:
        """Return the outermost stage at a path."""
        stage = self._chain
        for depth, number in enumerate(path):
            blend = _linear(stage)[-1]
            stage = blend.inputs[self._origins[path[:depth]].index(number)]
        return stage

    def _below(self, stage: SavableDataset[Any], path: Path) -> SavableDataset[Any]:
        found = next(one for one in _linear(self._at(path)) if one.key == stage.key)
        return found.inputs[0]

    def _state_at(self, new: State, path: Path) -> State:
        state = new
        for depth, number in enumerate(path):
            blend = _linear(self._at(path[:depth]))[-1]
            state = state[blend.key][str(number)]
        return state

    def _wrap(self, stage: SavableDataset[Any], item: Any, path: Path, positions: Mapping[Path, int], lane: int) -> Any:
        """Return the item id of an item that :meth:`_strip` returned, as the new chain has it.

        Raises:
            StateError: It has samples of several inputs of a blend.
        """
        if isinstance(item, list):
            return tuple(self._wrap(stage, one, path, positions, lane) for one in item)
        if isinstance(stage, BlendDataset):
            paths = {sample.reader.path for sample in _samples(item) if sample.reader is not None}
            if not paths:
                return stage.key, self._gone, 0
            if len(paths) > 1:
                raise _no_place(stage, lane)
            number = next(iter(paths))[len(path)]
            below = stage.inputs[self._origins[path].index(number)]
            return stage.key, number, self._wrap(below, item, (*path, number), positions, lane)
        if isinstance(item, _Sample):
            if not isinstance(stage, ReadDataset):
                return self._wrap(stage.inputs[0], item, path, positions, lane)
            reader = next(one for one in self._readers if one.path == path)
            return positions[path] - 1 - reader.held[lane].index((item.origin, item.position))
        key, number, inner = item
        if stage.key == key:
            return key, number, self._wrap(stage.inputs[0], inner, path, positions, lane)
        if isinstance(stage, ReadDataset):
            raise StateError(f"this state is damaged: lane {lane} has an item of the unknown stage {key!r}")
        return self._wrap(stage.inputs[0], item, path, positions, lane)

    def _nested(self, stage: SavableDataset[Any], path: Path, positions: Mapping[Path, int], read: int) -> State:
        """Return the state of a chain without buffers."""
        last = _linear(stage)[-1]
        if not isinstance(last, BlendDataset):
            return {last.key: positions[path]}
        own: State = {"next": 0} if last.size is None else {"total": 0, "volumes": []}
        if not path:
            own |= {"edits": 1} | ({"read": read} if last.counts_samples else {})
        for number, upstream in zip(self._origins[path], last.inputs, strict=True):
            own[str(number)] = self._nested(upstream, (*path, number), positions, read)
        return {last.key: own}


def _next_of(ids: deque[Any], _: Any) -> Any:
    return ids.popleft()


def _entries(state: State, path: Path = ()) -> Iterator[tuple[Path, str, Any]]:
    """Yield the entries of stages that are no blends, with the path of the state that has them."""
    for key, value in state.items():
        if is_blend_key(key):
            for number, inner in value.items():
                if isinstance(inner, Mapping) and number.isdecimal():
                    yield from _entries(dict(inner), (*path, int(number)))
        elif key != "made":
            yield path, key, value


def _samples(item: Any) -> Iterator[_Sample]:
    if isinstance(item, _Sample):
        yield item
    elif isinstance(item, list):
        for one in item:
            yield from _samples(one)
    else:
        yield from _samples(item[2])


def _linear(stage: SavableDataset[Any]) -> list[SavableDataset[Any]]:
    """Return the stages from one down to the next blend or reader."""
    found = [stage]
    while not isinstance(stage, BlendDataset | ReadDataset):
        stage = stage.inputs[0]
        found.append(stage)
    return found


def _stages(stage: SavableDataset[Any]) -> Iterator[SavableDataset[Any]]:
    """Yield the stages on the way to the first reader, and those on the ways to the others."""
    yield stage
    for upstream in stage.inputs:
        yield from _stages(upstream)


def _is_above(stage: SavableDataset[Any], blend: SavableDataset[Any]) -> bool:
    return any(one is blend for one in _stages(stage)) and stage is not blend


def _no_place(stage: SavableDataset[Any], lane: int) -> StateError:
    return StateError(
        f"the run cannot continue exactly with this mix: lane {lane} buffers items of several datasets in "
        f"{stage.key.partition(' ')[2]!r}, which has one buffer for each dataset before or after the change",
        hint='count samples before packing (@sample_size_metric without after="packing") in both mixes, save the '
        "state at another step if a generator is partly consumed, or start a new run",
    )
