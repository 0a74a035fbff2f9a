"""A worker's lanes continue in another process after any of its messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from loader import BatchDataset, PackingDataset, WorkerConfig
from loader.testing.stage import Values
from loader.training.workers.running_lane import LaneHost, LanesInTurn, LanesOneByOne, Message


def pairs(items: list[int]) -> list[list[int]]:
    return [items[start : start + 2] for start in range(0, len(items), 2)]


def as_list(items: list[Any]) -> list[Any]:
    return items


def chain(*, repeats: bool) -> Any:
    config = WorkerConfig(rank=1, world_size=2, num_workers=2)
    packed: Any = PackingDataset(Values(range(90), repeats=repeats, worker_config=config), 5, pairs, as_list)
    return BatchDataset(packed, 2, as_list)


def in_turn(*, repeats: bool, first_batch: int) -> LaneHost:
    return LanesInTurn(dataset=chain(repeats=repeats), lanes=10, ranks=2, rank=1, workers=2, first_batch=first_batch)


def one_by_one() -> LaneHost:
    return LanesOneByOne(dataset=chain(repeats=False), lanes=10, rank=1, ranks=2, workers=2)


def batches_in(messages: list[Message | None]) -> list[Any]:
    """Return numbers, lanes, states and batches; turns without a message are no difference."""
    return json.loads(json.dumps([message[:4] for message in messages if message is not None]))  # type: ignore[no-any-return]


def messages_of(host: LaneHost, worker: int, taken: int = 0) -> Iterator[Message | None]:
    return islice(host.messages(worker, taken=taken), 40 - taken)


@pytest.mark.parametrize("worker", [0, 1])
@pytest.mark.parametrize(
    "host",
    [
        pytest.param(in_turn(repeats=True, first_batch=0), id="endless"),
        pytest.param(in_turn(repeats=True, first_batch=6), id="endless, resumed"),
        pytest.param(in_turn(repeats=False, first_batch=0), id="finite"),
        pytest.param(one_by_one(), id="lane by lane"),
    ],
)
def test_the_messages_that_are_due_follow_after_any_message(host: LaneHost, worker: int) -> None:
    whole = list(messages_of(host, worker))
    made = [message for message in whole if message is not None]
    assert len(made) > 5
    for taken in range(len(whole)):
        states: dict[int, Any] = {}
        for message in whole[:taken]:
            if message is not None:
                states |= {message.lane: message.state, **(message.others or {})}
        states = json.loads(json.dumps({str(lane): state for lane, state in states.items()}))
        continued = host.continued({int(lane): state for lane, state in states.items()})
        rest = list(messages_of(continued, worker, taken))
        assert batches_in(rest) == batches_in(whole[taken:])
