"""Compare the chain of a state with that of a run whose blends are of another kind, and describe the change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .....pipeline.contract.stage import SavableDataset, State
from .....pipeline.reading.order_plan import ShuffledPlan
from .....pipeline.reading.read import ReadDataset
from .....pipeline.stages.blend import BlendDataset
from ...mix_history import MixChanges
from ..change import SavedPlace
from ..differences import differences, leaf_name, shares
from ..leaves import OF_LEAVES, Leaf, LeafChange, leaves_of, match_leaves, progress_text
from .lane_states import NewReader, NewSource, StateWriter
from .saved_streams import READ, SavedStream, is_blend, saved_readers

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restructured:
    """A run whose blends became blends of another kind.

    Attributes:
        leaves: The change of each dataset.
        stages: Path of a reader or blend → its change, as :mod:`...mix_history` describes it.
        lanes: The states of the lanes in the new chain.
        is_sequential: The datasets are not shuffled.
    """

    leaves: Sequence[LeafChange]
    stages: Mapping[str, dict[str, Any]]
    lanes: Mapping[int, State]
    is_sequential: bool


def find_restructured(saved: Any, chain: SavableDataset[Any], place: SavedPlace) -> Restructured | None:
    """Compare the chain of a state with that of a run, whatever their blends.

    Args:
        saved: The description of the chain in the state.
        chain: The chain of the run.
        place: The outermost place in the chain of the state.

    Returns:
        The change; None if the chains differ in other ways, too, or no dataset stays.

    Raises:
        StateError: A position in the state is damaged, or a buffer has no place in the new chain.
    """
    with suppress(LookupError, TypeError, AttributeError, ArithmeticError, ValueError):  # a damaged description
        if any(differences(_outline(saved), _outline(chain.identity()))):
            return None
        readers = [*saved_readers(saved, place.lanes, changes=place.changes, seed=place.seed, count=place.count)]
        first = _first_number(saved, place.changes)
        found = _NewChain(chain, first)
        streams = [stream for reader in readers for stream in reader.streams.values()]
        if not found.match(streams):
            return None
        writer = StateWriter(chain, found.readers, readers, origins=found.origins, gone=found.gone)
        new_lanes = {lane: writer.write(lane, state) for lane, state in place.lanes.items()}
        reads = {lane: writer.samples_read(lane, state) for lane, state in place.lanes.items()}
        return Restructured(
            leaves=[*found.leaf_changes(streams, place.scale)],
            stages=found.stages(writer, reads),
            lanes=new_lanes,
            is_sequential=any(map(_is_sequential, [*(one.settings for one in readers), *found.settings()])),
        )
    return None


def _outline(identity: Any) -> list[Any]:
    """Return the stages of a chain without its blends, whose inputs have the same stages.

    Raises:
        LookupError: They do not, or a stage that is no blend has several inputs.
    """
    name, settings, *inputs = identity
    if name == "read":
        if "repetitions" in settings:
            raise LookupError(name)
        return [[name, {key: value for key, value in settings.items() if key not in OF_LEAVES}]]
    if is_blend(identity):
        below, *others = map(_outline, inputs)
        if any(other != below for other in others):
            raise LookupError(name)
        return below
    [upstream] = inputs
    return [[name, settings], *_outline(upstream)]


def _first_number(saved: Any, changes: MixChanges) -> int:
    """Return a number from which on no dataset or input of a blend has been numbered."""
    known: list[int] = [change["next"] for entry in changes for change in entry["stages"].values()]
    return max([_most_inputs(saved), *known])


def _most_inputs(identity: Any) -> int:
    inputs = identity[2:]
    return len(inputs) if identity[0] == "read" else max([len(inputs), *map(_most_inputs, inputs)])


def _is_sequential(settings: Mapping[str, Any]) -> bool:
    return settings["shuffle_buffer"] <= 1 and settings.get("epochs_together") is None


class _NewChain:
    """The chain of a run: its readers with the numbers of their datasets.

    Args:
        chain: The chain.
        first: The number of the first input of the outermost blend, or of the first dataset of the only reader.
    """

    def __init__(self, chain: SavableDataset[Any], first: int) -> None:
        self._chain = chain
        self._first = first
        self.readers: list[NewReader] = []
        self.origins: dict[Path, tuple[int, ...]] = {}
        self._blend: BlendDataset[Any] | None = None
        self._shares: list[float] = []
        self._walk(chain, (), 1.0)
        self._leaves = [leaf for reader in self.readers for leaf in _leaves_in(reader.reader)]
        self._sources = [source for reader in self.readers for source in reader.sources]

    @property
    def gone(self) -> int:
        """A number that no input and no dataset has, or will have."""
        return self._first + max([len(self.readers), *(len(one.sources) for one in self.readers)])

    def _walk(self, stage: SavableDataset[Any], path: Path, share: float) -> None:
        first = 0 if path else self._first
        while not isinstance(stage, BlendDataset | ReadDataset):
            [stage] = stage.inputs
        if isinstance(stage, ReadDataset):
            numbers = range(first, first + len(stage.sources))
            sources = [NewSource(origin=number) for number in numbers]
            plan = stage.plan
            weights = plan.weights if isinstance(plan, ShuffledPlan) else (1.0,) * len(sources)
            self.readers.append(NewReader(path=path, reader=stage, sources=sources, gone=first + len(sources)))
            self._shares += shares(weights, share)
            return
        if not path:
            self._blend = stage
        self.origins[path] = tuple(range(first, first + len(stage.inputs)))
        parts = shares(stage.weights, share)
        for number, upstream, part in zip(self.origins[path], stage.inputs, parts, strict=True):
            self._walk(upstream, (*path, number), part)

    def settings(self) -> Iterator[Mapping[str, Any]]:
        """Yield the settings of the readers."""
        return (reader.reader.settings() for reader in self.readers)

    def match(self, streams: Sequence[SavedStream]) -> bool:
        """Match the datasets with those of the state; False if none stays, or one has another slice length."""
        known = dict(enumerate(stream.leaf for stream in streams))
        matched = match_leaves(known, self._leaves)
        for source, leaf, number in zip(self._sources, self._leaves, matched, strict=True):
            if number is not None:
                source.saved = streams[number]
                if leaf.slice_length != source.saved.leaf.slice_length:
                    return False
        return any(number is not None for number in matched)

    def leaf_changes(self, streams: Sequence[SavedStream], scale: float) -> Iterator[LeafChange]:
        """Yield the change of each dataset."""
        kept = {id(source.saved) for source in self._sources}
        ended = [stream for stream in streams if id(stream) not in kept]
        for source, leaf, share in zip(self._sources, self._leaves, self._shares, strict=True):
            was = source.saved
            if was is not None:
                consumed = sum(was.consumed.values()) * scale
                text = f"continues at {progress_text(consumed, leaf.source['samples'])}"
            else:
                was = next((one for one in ended if one.leaf.source["path"] == leaf.source["path"]), None)
                text = "new"
                if was is not None:
                    ended.remove(was)
                    text = leaf.changed_from(was.leaf)
            yield LeafChange(leaf_name(leaf.source), text, None if was is None else was.share, share)
        for stream in ended:
            yield LeafChange(leaf_name(stream.leaf.source), "gone", stream.share, None)

    def stages(self, writer: StateWriter, reads: Mapping[int, int]) -> dict[str, dict[str, Any]]:
        """Return the changes of the readers, and of the outermost blend."""
        found: dict[str, dict[str, Any]] = {}
        if self._blend is not None:
            found[self._blend.key] = {"origins": [*self.origins[()]], "next": self.gone + 1}
        for reader in self.readers:
            held = {str(lane): [list(one) for one in reversed(own)] for lane, own in reader.held.items() if own}
            found["".join(f"{number}/" for number in reader.path) + READ] = {
                "origins": [source.origin for source in reader.sources],
                "next": max(self.gone, reader.gone) + 1,
                "gone": [],
                "streams": [
                    list((*reader.path, source.origin) if source.saved is None else source.saved.stream)
                    for source in reader.sources
                ],
                "lanes": {str(lane): writer.base(reader, lane, read) for lane, read in sorted(reads.items())},
                "consumed": {str(lane): reader.consumed(lane) for lane in sorted(reads)},
                "held": held,
            }
        return found


def _leaves_in(reader: ReadDataset) -> list[Leaf]:
    return leaves_of(reader.settings(), [source.identity() for source in reader.sources])
