"""A stage that shuffles items in a buffer."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...order import mix
from ..contract.item_id import ItemId
from ..contract.lane import BufferedItem, Lane
from ..contract.running import StageTraits
from ..contract.stage import SKIPPED, Running, SavableDataset, State, T
from ..contract.state_schema import BUFFERED_ITEM, COUNT, saved_dict
from ..contract.worker_config import WorkerConfig, check_at_least

_PICK = 40  # separates these random numbers from others
_CHUNK = 256  # picks that are drawn together


class ShuffleBufferDataset(SavableDataset[T]):
    """Shuffle items with a buffer: yield a random item of the buffer, and refill it from below.

    This stage is for chains composed by hand. The ``shuffle_buffer_size`` of
    :func:`~loader.training.datasets.get_datasets.get_train_dataset` shuffles without buffering samples. Here the memory
    and the time of a restore grow with ``size``, and a state has the ids of all items in the buffer.

    Args:
        dataset: The stage below.
        size: Items of a full buffer.
        worker_config: By default the dataset's.

    Raises:
        ConfigError: ``size`` is below 1.

    >>> config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    >>> photos = get_dataset_from_config("photos", split_part="train", training=False, worker_config=config).build()
    >>> sorted(sample.caption for sample in get_loader(ShuffleBufferDataset(photos, 3)))
    ['a bird', 'a cat', 'a dog', 'two cats']
    """

    entry_schema = saved_dict(picked=COUNT, buffer=list[BUFFERED_ITEM])
    traits = StageTraits(buffers=True)

    def __init__(
        self,
        dataset: SavableDataset[T],
        size: int,
        *,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        check_at_least(1, "item", size=size)
        self.size = size

    def settings(self) -> dict[str, Any]:
        return {"size": self.size}

    def open(self, lane: Lane, state: State) -> Running:
        return _ShuffleRunning(self, lane, state)


class _ShuffleRunning:
    def __init__(self, definition: ShuffleBufferDataset[Any], lane: Lane, state: State) -> None:
        self._upstream = definition.inputs[0].open(lane, state)
        self.load = self._upstream.load
        self._lane = lane
        self._size = definition.size
        self._depth = definition.depth
        self._key = definition.key
        entry = state.get(self._key, {"picked": 0, "buffer": []})
        self._picked: int = entry["picked"]
        self._buffer = [BufferedItem.from_state(saved) for saved in entry["buffer"]]
        self._words: list[int] = []  # random integers of 64 bits, for the picks from _first_word on
        self._first_word = self._picked

    def next(self) -> tuple[Any, ItemId]:
        buffer = self._buffer
        self._fill()
        if not buffer:
            raise StopIteration
        position = self._random_below(len(buffer))
        buffer[position], buffer[-1] = buffer[-1], buffer[position]
        sample = buffer.pop()
        return sample.value(self._upstream, self._lane), sample.item_id

    def _fill(self) -> None:
        while len(self._buffer) < self._size:
            try:
                value, item_id = self._upstream.next()
            except StopIteration:
                return
            if value is not SKIPPED:
                self._buffer.append(BufferedItem(item_id, self._lane.context.batch_index, value))

    def _random_below(self, bound: int) -> int:
        row = self._picked - self._first_word
        if row == len(self._words):
            lane = self._lane
            picks = np.arange(self._picked, self._picked + _CHUNK)
            self._words = mix(lane.seed, _PICK, self._depth, lane.number, picks).tolist()
            self._first_word, row = self._picked, 0
        self._picked += 1
        word: int = self._words[row]
        return ((word >> 32) * bound) >> 32

    def state(self) -> State:
        state = self._upstream.state()
        state[self._key] = {"picked": self._picked, "buffer": [sample.to_state() for sample in self._buffer]}
        return state
