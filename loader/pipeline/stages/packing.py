"""Which samples are packed together: chosen by the user's function from a buffer of them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..errors import ConfigError, SkipSample
from .hook import Hook
from .lane import Lane
from .ref import Ref, as_ref, plain
from .restore_key import stamp
from .stage import SKIPPED, Running, SavableDataset, State
from .waiting import Waiting
from .worker_config import WorkerConfig

__all__ = ["PackSelectionDataset"]


class PackSelectionDataset(SavableDataset[list[Any]]):
    """Fill a buffer, and give the groups of samples that a function chooses from it.

    Args:
        dataset: What gives the samples.
        buffer_size: Samples of a full buffer.
        pre_packer: Takes the samples of the buffer, gives groups of them.
        sample_encoder: Applied to each sample of a group when the group's turn comes.
        worker_config: By default the dataset's.
    """

    def __init__(
        self,
        dataset: SavableDataset[Any],
        buffer_size: int,
        pre_packer: Callable[[list[Any]], Iterable[Iterable[Any]]],
        *,
        sample_encoder: Callable[[Any], Any] | None = None,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        if buffer_size < 1:
            raise ConfigError(f"expected a buffer_size of at least 1 sample, found {buffer_size}")
        self.buffer_size = buffer_size
        self.pre_packer = pre_packer
        self.sample_encoder = sample_encoder

    @property
    def waits(self) -> bool:
        return True

    @property
    def runs_user_code(self) -> bool:
        return True

    def settings(self) -> dict[str, Any]:
        return {"buffer_size": self.buffer_size}

    def open(self, lane: Lane, state: State) -> Running:
        return _SelectionRunning(self, lane, state)


class _SelectionRunning:
    """Between two calls of ``next`` some groups wait or none does; the buffer is never filled in part."""

    def __init__(self, definition: PackSelectionDataset, lane: Lane, state: State) -> None:
        self._source = definition.sources[0].open(lane, state)
        self._lane = lane
        self._size = definition.buffer_size
        self._select = Hook(definition.pre_packer, lane)
        self._encode = None if definition.sample_encoder is None else Hook(definition.sample_encoder, lane)
        self._key = definition.key
        self._stage = lane.path + definition.key
        own = state.get(self._key, {"batch": None, "groups": []})
        self._batch: int | None = own["batch"]  # the micro-batch for which the buffer was filled
        self._groups: deque[list[Waiting]] = deque(
            [Waiting(as_ref(ref), self._batch) for ref in group] for group in own["groups"]
        )

    def next(self) -> tuple[Any, Ref]:
        if not self._groups:
            self._choose(self._filled())
        if not self._groups:
            return SKIPPED, ()
        values: list[Any] = []
        refs: list[Ref] = []
        for sample in self._groups.popleft():
            value = sample.value(self._source, self._lane)
            if value is not SKIPPED:
                self._encode_into(values, refs, value, sample.ref)
        return values or SKIPPED, tuple(refs)

    def _filled(self) -> list[tuple[Any, Ref]]:
        samples: list[tuple[Any, Ref]] = []
        while len(samples) < self._size:
            try:
                value, ref = self._source.next()
            except StopIteration:
                if not samples:
                    raise
                break
            if value is not SKIPPED:
                samples.append((value, ref))
        return samples

    def _choose(self, samples: list[tuple[Any, Ref]]) -> None:
        values = [value for value, _ in samples]
        try:
            # The function gets a list of its own: it may sort or empty it.
            groups = [list(group) for group in self._select.call(list(values), tuple(ref for _, ref in samples))]
        except SkipSample:
            return
        except Exception as error:
            self._select.failed(error, values)
            return
        self._select.succeeded()
        self._batch = self._lane.context.batch_index
        self._groups.extend(_named(groups, samples, self._batch))

    def _encode_into(self, values: list[Any], refs: list[Ref], value: Any, ref: Ref) -> None:
        if self._encode is None:
            values.append(value)
            refs.append(ref)
            return
        for item, item_ref in self._encode.items(value, self._key, ref):
            self._stamp(item, item_ref)
            values.append(item)
            refs.append(item_ref)

    def _stamp(self, item: Any, ref: Ref) -> None:
        """Note on an encoded sample what makes it again; a ref without the key would name a group."""
        stamp(item, self._stage, self._lane, ref if self._is_own(ref) else (self._key, 0, ref))

    def _is_own(self, ref: Ref) -> bool:
        return isinstance(ref, tuple) and bool(ref) and ref[0] == self._key

    def state(self) -> State:
        state = self._source.state()
        groups = [[plain(sample.ref) for sample in group] for group in self._groups]
        if groups:
            state[self._key] = {"batch": self._batch, "groups": groups}
        return state

    def load(self, ref: Ref) -> Any:
        if self._is_own(ref):
            return self._item(ref)
        items = [self._item(inner) for inner in ref] if isinstance(ref, tuple) else []
        return [item for item in items if item is not SKIPPED]

    def _item(self, ref: Any) -> Any:
        number, inner = ref[1:] if self._is_own(ref) else (0, ref)
        value = self._source.load(inner)
        if value is SKIPPED or self._encode is None:
            return value
        item = self._encode.item_again(value, self._key, number, inner)
        self._stamp(item, ref)
        return item


def _named(groups: list[list[Any]], samples: Sequence[tuple[Any, Ref]], batch: int | None) -> list[list[Waiting]]:
    """Find out which samples of the buffer the groups are made of, so that a state can name them."""
    of_object: defaultdict[int, list[Waiting]] = defaultdict(list)
    for value, ref in reversed(samples):
        of_object[id(value)].append(Waiting(ref, batch, value))

    def named(value: Any) -> Waiting:
        found = of_object.get(id(value))
        if not found:
            raise ConfigError(
                f"expected select_samples_to_pack to choose from the samples it was given, found another object, "
                f"a {type(value).__name__}",
                do="return lists of the very objects it got; what changes a sample belongs into the hooks before "
                "it or into postencode_sample",
            )
        # Values that are equal may be one object; a sample may be in several groups.
        return found.pop() if len(found) > 1 else found[0]

    return [[named(value) for value in group] for group in groups if group]
