"""Pack several samples into one."""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NotRequired

from ...errors import ConfigError, SkipSample, plural
from ...escaped_log import get_logger
from ...samples.encoding.task_encoder import PackedSamplesOutput
from ..contract.hook import Hook
from ..contract.item_id import ItemId, as_item_id, plain_item_id
from ..contract.lane import BufferedItem, Lane, LaneInput, set_restore_key
from ..contract.running import StageTraits
from ..contract.stage import SKIPPED, Running, SavableDataset, State, T
from ..contract.state_schema import BUFFERED_ITEM, COUNT, ITEM_ID, saved_dict
from ..contract.worker_config import WorkerConfig, check_at_least
from ..failures.error_handlers import joined_names, keys_of_sample, one_line
from ..failures.policy import ends_run
from .map import MapDataset

_Sample = tuple[Any, ItemId]
_log = get_logger(__name__)


class PackingDataset(MapDataset[T]):
    """Pack several samples into one.

    If ``pre_packer([a, b, c, d])`` returns ``[[a, c], [b]]``, ``PackingDataset([a, b, c, d], 4, pre_packer, f)`` yields
    ``f([a, c]), f([b])``. Samples in no group are dropped. The buffer is filled again when all groups are packed; at
    the end of a lane it is filled from the other lanes of the worker, and at the end of a pass it is shorter. If
    ``pre_packer`` returns a :class:`~loader.samples.encoding.task_encoder.PackedSamplesOutput`, its ``pushback``
    comes first in the next fill.

    If ``pre_packer`` fails, it is called again without the samples for which it fails alone, or for each half of the
    buffer if it fails for none alone. A failure of ``final_packer`` loses its group. The log names all lost
    samples: of a failure, in no group, or pushed back at the end of a pass.

    A state has the ids of the samples in selected groups and of pushed-back samples, which are rebuilt after a restore.
    Functions below that draw random numbers should therefore be marked ``@stateless(restore_seeds=True)``, and
    ``pre_packer`` must not change samples.

    Args:
        dataset: The stage below.
        buffer_size: Samples that ``pre_packer`` selects from.
        pre_packer: Takes the samples of the buffer, returns groups of them, and optionally samples that return to the
            buffer: ``select_samples_to_pack``.
        final_packer: Packs a group into one sample; may be a generator: ``pack_selected_samples``.
        sample_encoder: Applied to each sample of a group before it is packed; may be a generator, or skip the sample by
            raising :class:`~loader.errors.SkipSample`: ``postencode_sample``.
        pre_packer_failure_tolerance: Consecutive failures of ``pre_packer`` that end the run; by default the number set
            for it, or 100.
        final_packer_failure_tolerance: The same for ``final_packer``.
        sample_encoder_failure_tolerance: The same for ``sample_encoder``.
        worker_config: By default the dataset's.
        final_packer_stateless: Accepted for code written for megatron-energon, and ignored.
        sample_encoder_stateless: As above.
        packer_config: As above.

    Raises:
        ConfigError: ``buffer_size`` is below 1.

    >>> config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    >>> photos = get_dataset_from_config("photos", split_part="train", training=False, worker_config=config).build()
    >>> pairs = PackingDataset(
    ...     photos,
    ...     4,
    ...     lambda samples: [samples[:2], samples[2:]],
    ...     lambda group: " and ".join(sample.caption for sample in group),
    ... )
    >>> list(get_loader(pairs))
    ['a cat and a dog', 'two cats and a bird']
    """

    def __init__(
        self,
        dataset: SavableDataset[Any],
        buffer_size: int,
        pre_packer: Callable[[list[Any]], Iterable[Iterable[Any]] | PackedSamplesOutput[Any]],
        final_packer: Callable[[list[Any]], Any],
        *,
        sample_encoder: Callable[[Any], Any] | None = None,
        pre_packer_failure_tolerance: int | None = None,
        final_packer_failure_tolerance: int | None = None,
        sample_encoder_failure_tolerance: int | None = None,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
        final_packer_stateless: bool = False,  # noqa: ARG002 - accepted for code written for megatron-energon
        sample_encoder_stateless: bool = False,  # noqa: ARG002 - accepted for code written for megatron-energon
        packer_config: Any = None,  # noqa: ARG002 - accepted for code written for megatron-energon
    ) -> None:
        selection = PackSelectionDataset(
            dataset,
            buffer_size,
            pre_packer,
            sample_encoder=sample_encoder,
            pre_packer_failure_tolerance=pre_packer_failure_tolerance,
            sample_encoder_failure_tolerance=sample_encoder_failure_tolerance,
            name="select_samples_to_pack",
            worker_config=worker_config,
        )
        self.selection = selection
        super().__init__(selection, final_packer, failure_tolerance=final_packer_failure_tolerance, name=name)
        self.buffer_size = buffer_size
        self.pre_packer = pre_packer
        self.final_packer = final_packer
        self.sample_encoder = sample_encoder


class PackSelectionDataset(SavableDataset[list[Any]]):
    """Fill a buffer, and yield the groups of samples that a function selects from it.

    Args:
        pre_packer_failure_tolerance: Consecutive failures of ``pre_packer`` that end the run.
        worker_config: By default the dataset's.
    """

    entry_schema = saved_dict(
        batch=COUNT | None,
        groups=list[list[ITEM_ID]],
        earlier=NotRequired[list[BUFFERED_ITEM]],
        pushback=NotRequired[list[BUFFERED_ITEM]],
    )
    # Each group has a sample at least, and a sample is in one group.
    traits = StageTraits(never_more=True, buffers=True, draws_random=True)

    def __init__(
        self,
        dataset: SavableDataset[Any],
        buffer_size: int,
        pre_packer: Callable[[list[Any]], Iterable[Iterable[Any]] | PackedSamplesOutput[Any]],
        *,
        sample_encoder: Callable[[Any], Any] | None = None,
        pre_packer_failure_tolerance: int | None = None,
        sample_encoder_failure_tolerance: int | None = None,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        check_at_least(1, "sample", buffer_size=buffer_size)
        self.buffer_size = buffer_size
        self.pre_packer = pre_packer
        self.sample_encoder = sample_encoder
        self.size_metrics: Mapping[str, Callable[[Any], float]] = {}  # of its samples, for statistics
        self.failure_tolerances = (pre_packer_failure_tolerance, sample_encoder_failure_tolerance)

    def settings(self) -> dict[str, Any]:
        return {"buffer_size": self.buffer_size}

    def open(self, lane: Lane, state: State) -> Running:
        return _SelectionRunning(self, lane, state)


class _SelectionRunning:
    """Iterator over groups: between two calls of ``next`` it holds groups and pushed-back samples."""

    def __init__(self, definition: PackSelectionDataset, lane: Lane, state: State) -> None:
        self._stage = lane.path + definition.key
        self._upstream = LaneInput(definition.inputs[0], lane, state, self._stage)
        self._lane = lane
        self._size = definition.buffer_size
        # The functions that select groups and encode their samples.
        of_packer, of_encoder = definition.failure_tolerances
        self._select = Hook(
            definition.pre_packer,
            lane,
            failure_tolerance=of_packer,
            stage=definition.name,
            sizes=definition.size_metrics,
        )
        encoder = definition.sample_encoder
        self._encode = (
            None if encoder is None else Hook(encoder, lane, failure_tolerance=of_encoder, stage="postencode_sample")
        )
        self._logged = 0  # samples that are logged
        self._key = definition.key
        # What a saved state holds: ids, from which samples are rebuilt when they are needed.
        entry = state.get(self._key, {"batch": None, "groups": []})
        self._batch: int | None = entry["batch"]  # the micro-batch during which the buffer was filled
        self._groups: deque[list[BufferedItem]] = deque(
            [BufferedItem(as_item_id(item_id), self._batch) for item_id in group] for group in entry["groups"]
        )
        self._pushback = [BufferedItem.from_state(saved) for saved in entry.get("pushback", ())]
        earlier = [BufferedItem.from_state(saved) for saved in entry.get("earlier", ())]
        self._earlier = {item.item_id: item.batch for item in earlier}  # items of groups that earlier fills have read
        for group in self._groups:
            for item in group:
                item.batch = self._earlier.get(item.item_id, item.batch)

    def next(self) -> tuple[Any, ItemId]:
        if not self._groups:
            self._select_groups(self._fill_buffer())
        if not self._groups:
            return SKIPPED, ()
        values: list[Any] = []
        item_ids: list[ItemId] = []
        # Encode the samples of the group only now, so that a state holds the ids of samples from below.
        for sample in self._groups.popleft():
            value = sample.value(self._upstream, self._lane)
            if value is not SKIPPED:
                self._encode_into(values, item_ids, value, sample.item_id)
        return values or SKIPPED, tuple(item_ids)

    def _fill_buffer(self) -> list[_Sample]:
        values, item_ids = map(list, _columns(self._pushed_back()))
        self._upstream.fill(values, item_ids, self._size)
        if not values:
            raise StopIteration
        return [*zip(values, item_ids, strict=True)]

    def _pushed_back(self) -> list[_Sample]:
        """Return and forget the pushed-back samples; a restored stage rebuilds them."""
        items, self._pushback = self._pushback, []
        values = [(item.value(self._upstream, self._lane), item) for item in items]
        self._earlier = {item.item_id: item.batch for value, item in values if value is not SKIPPED}
        return [(value, item.item_id) for value, item in values if value is not SKIPPED]

    def _select_groups(self, samples: list[_Sample]) -> None:
        self._batch = self._lane.context.batch_index
        pushback, *groups = self._selected(samples)
        self._groups.extend(group for group in groups if group)
        self._pushback = self._checked_pushback(pushback, samples)
        if self._groups:
            self._select.skips.count = 0

    def _selected(self, samples: list[_Sample]) -> list[list[BufferedItem]]:
        """Return the samples that the function pushes back, and the groups that it selects.

        If it fails, it is called again without the samples for which it fails alone, or else for each half.
        """
        try:
            chosen = self._choose(samples)
        except SkipSample:
            self._skip(samples)
            return [[]]
        except Exception as error:
            if len(samples) == 1 or ends_run(error):
                self._select.failed(error, *_columns(samples))
                return [[]]
            failure = one_line(error)
        else:
            # The usual end: groups end a series of skips, and samples that are not selected are skipped.
            self._select.succeeded(*_columns(samples))
            items = _find_items(chosen, samples, self._batch, self._earlier)
            if any(items[1:]):
                self._select.skips.count = 0
            used = {item.item_id for group in items for item in group}
            self._skip([sample for sample in samples if sample[1] not in used], why="put it in no group")
            return items
        # Find the samples for which it fails alone.
        halves = _halves(samples)
        lost = set().union(*map(self._failing, halves))
        if not lost:
            _log.warning("%s raised %s for %d samples, but for none alone", self._select.name, failure, len(samples))
        # Call it for all other samples together, so that few of them remain outside of groups.
        items = [[]]
        for part in [[sample for sample in samples if sample[1] not in lost]] if lost else halves:
            pushback, *groups = self._selected(part) if part else [[]]
            items[0] += pushback
            items += groups
        return items

    def _failing(self, samples: list[_Sample]) -> set[ItemId]:
        """Return the ids of samples for which the function fails alone, after their failures are counted."""
        try:
            self._choose(samples)
        except SkipSample:
            return set()
        except Exception as error:
            if len(samples) == 1:
                self._select.failed(error, *_columns(samples))
                return {samples[0][1]}
        else:
            return set()
        # Search both halves: few samples that fail are found with few calls.
        return set().union(*map(self._failing, _halves(samples)))

    def _choose(self, samples: list[_Sample]) -> list[list[Any]]:
        """Call the function; return the samples that it pushes back, and its groups."""
        values, item_ids = _columns(samples)
        # The function may sort or empty the list.
        selected = self._select.call(values, item_ids)
        if isinstance(selected, PackedSamplesOutput):
            return [list(selected.pushback), *map(list, selected.groups)]
        return [[], *map(list, selected)]

    def _skip(self, samples: Sequence[_Sample], *, how: str = "skipped", why: str = "") -> None:
        """Count samples that are lost, and log their keys if ``why`` is given.

        The line of the log is a warning when the number of these samples has doubled, otherwise information.
        """
        if not samples:
            return
        values, item_ids = _columns(samples)
        self._select.note_skipped(item_ids)
        if why:
            before, self._logged = self._logged, self._logged + len(samples)
            _log.log(
                logging.WARNING if before.bit_length() < self._logged.bit_length() else logging.INFO,
                "skipped %s: %s %s · lane %d · %d so far",
                _names(values),
                self._select.name,
                why,
                self._lane.number,
                self._logged,
            )
        self._select.skips.add(len(samples), how=how)

    def _checked_pushback(self, pushback: list[BufferedItem], samples: Sequence[_Sample]) -> list[BufferedItem]:
        """Return the samples for the next fill; drop them if no more come and none was taken."""
        has_new = len(samples) > len(self._earlier)
        if len(pushback) < self._size and (has_new or len(pushback) < len(samples)):
            return pushback
        # No sample was taken, and none follows: the function would push the same samples back forever.
        unused = [(item.value(self._upstream, self._lane), item.item_id) for item in pushback]
        if len(pushback) >= self._size:
            raise ConfigError(
                f"select_samples_to_pack pushed all {plural(len(pushback), 'sample')} of a full buffer back: "
                f"{_names([value for value, _ in unused])}",
                hint="put at least one of them in a group, or in neither to drop it",
            )
        self._skip(
            unused, how="pushed back at the end of a pass", why="pushed it back, and the pass has no more samples"
        )
        return []

    def _encode_into(self, values: list[Any], item_ids: list[ItemId], value: Any, item_id: ItemId) -> None:
        if self._encode is None:
            values.append(value)
            item_ids.append(item_id)
            return
        for item, own_id in self._encode.items(value, self._key, item_id):
            self._set_restore_key(item, own_id)
            values.append(item)
            item_ids.append(own_id)

    def _set_restore_key(self, item: Any, item_id: ItemId) -> None:
        """Set the restore key of an encoded sample; an id without this stage's key would identify a group."""
        set_restore_key(item, self._stage, self._lane, item_id if self._is_own(item_id) else (self._key, 0, item_id))

    def _is_own(self, item_id: ItemId) -> bool:
        return isinstance(item_id, tuple) and bool(item_id) and item_id[0] == self._key

    def state(self) -> State:
        state = self._upstream.state()
        groups = [[plain_item_id(sample.item_id) for sample in group] for group in self._groups]
        if groups or self._pushback:
            state[self._key] = {"batch": self._batch, "groups": groups}
            waiting = {item.item_id: item for group in self._groups for item in group if item.item_id in self._earlier}
            for name, items in (("earlier", waiting.values()), ("pushback", self._pushback)):
                if items:
                    state[self._key][name] = [item.to_state() for item in items]
        return state

    def load(self, item_id: ItemId) -> Any:
        if self._is_own(item_id):
            return self._item(item_id)
        items = [self._item(inner) for inner in item_id] if isinstance(item_id, tuple) else []
        return [item for item in items if item is not SKIPPED] or SKIPPED

    def _item(self, item_id: Any) -> Any:
        item_number, inner = item_id[1:] if self._is_own(item_id) else (0, item_id)
        value = self._upstream.load(inner)
        if value is SKIPPED or self._encode is None:
            return value
        item = self._encode.rebuild_item(value, self._key, item_number, inner)
        self._set_restore_key(item, item_id)
        return item


def _columns(samples: Sequence[_Sample]) -> tuple[list[Any], tuple[ItemId, ...]]:
    return [value for value, _ in samples], tuple([item_id for _, item_id in samples])


def _halves(samples: list[_Sample]) -> tuple[list[_Sample], list[_Sample]]:
    middle = len(samples) // 2
    return samples[:middle], samples[middle:]


def _names(values: list[Any]) -> str:
    return joined_names(keys_of_sample(values)) or f"{plural(len(values), 'sample')} without keys"


def _find_items(
    groups: list[list[Any]],
    samples: Sequence[_Sample],
    batch: int | None,
    earlier: Mapping[ItemId, int | None],
) -> list[list[BufferedItem]]:
    items_by_object: defaultdict[int, list[BufferedItem]] = defaultdict(list)
    for value, item_id in reversed(samples):
        items_by_object[id(value)].append(BufferedItem(item_id, earlier.get(item_id, batch), value))

    def find(value: Any) -> BufferedItem:
        same_object = items_by_object.get(id(value))
        if not same_object:
            raise ConfigError(
                f"expected select_samples_to_pack to select from its samples, found another object, a "
                f"{type(value).__name__}",
                hint="return lists of the same objects; change samples in the hooks before it or in postencode_sample",
            )
        # Several samples of the buffer may be one object (a cached int), and a sample may be in several groups.
        return same_object.pop() if len(same_object) > 1 else same_object[0]

    return [[find(value) for value in group] for group in groups]
