"""Keys of any type, size and depth that ``restore_sample`` refuses in words, or rebuilds a sample from, at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loader import SavableDataLoader, StateError, WorkerConfig, get_savable_loader
from loader.pipeline.contract.stage import SKIPPED
from tests.e2e.drawing_pipelines import Data, write_data
from tests.e2e.test_restore_sample import AGAIN
from tests.elastic_runs import restore_key_of

_MAX_MESSAGE = 2000
_MAX_NUMBER = (1 << 48) - 1  # the largest that is not refused by its size


def nested(depth: int, *, width: int = 1) -> Any:
    value: Any = 7
    for _ in range(depth):
        value = (value,) * width
    return value


VALUES: list[Any] = [
    *(-1, 157, 10**6, 2**31, 2**47, _MAX_NUMBER, 2**63, 2**200, 10**5000),
    *(float("nan"), float("inf"), True, None, b"x", {}, range(3)),
    *("", "lane", "x" * (1 << 20), "1" * (1 << 20), f"{'1' * 5000}/0 read"),
    *(nested(1000), nested(150), nested(60, width=2), nested(5, width=8)),
    *((), ((),) * 1000, tuple(range(1000)), (_MAX_NUMBER,) * 1000),
    *(("lane", _MAX_NUMBER, 0), ("lane", 0, _MAX_NUMBER), ("lane", 3, 7), ("0 read", 0, 7)),
]


def places_in(key: Any, above: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Yield the place of a key and of everything in it."""
    yield above
    if isinstance(key, tuple):
        for number, inner in enumerate(key):
            yield from places_in(inner, (*above, number))


def replaced(key: Any, place: tuple[int, ...], value: Any) -> Any:
    if not place:
        return value
    return *key[: place[0]], replaced(key[place[0]], place[1:], value), *key[place[0] + 1 :]


def restore(loader: SavableDataLoader[Any], key: Any) -> None:
    message = ""
    try:
        assert loader.restore_sample(key) is not SKIPPED
    except StateError as error:
        message = str(error)
    assert len(message) < _MAX_MESSAGE


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def opened(data: Data) -> Callable[[str], tuple[SavableDataLoader[Any], Any]]:
    """Open a pipeline, and return a loader and the key of a micro-batch."""

    def open_one(name: str) -> tuple[SavableDataLoader[Any], Any]:
        config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4)
        key = restore_key_of(next(iter(get_savable_loader(AGAIN[name](data, config)))))
        return get_savable_loader(AGAIN[name](data, config)), key

    return open_one


_QUICK = ("several samples of each", "packing several of each", "grouping", "blend", "iter-map", "repeated")


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("name", "places"),
    [*((name, 1) for name in _QUICK), *(pytest.param(name, 6, marks=pytest.mark.slow) for name in AGAIN)],
)
@pytest.mark.sampled(3)
def test_a_key_with_any_value_in_any_place_is_refused_or_restored_at_once(
    name: str, places: int, opened: Callable[[str], tuple[SavableDataLoader[Any], Any]]
) -> None:
    loader, key = opened(name)
    inside = [place for place in places_in(key) if len(place) > 1]
    for place in [(), (0,), (1,), (2,), (3,), *random.Random(7).sample(inside, min(len(inside), places))]:
        for value in VALUES:
            restore(loader, replaced(key, place, value))


def test_an_item_that_a_hook_does_not_yield_is_named(
    opened: Callable[[str], tuple[SavableDataLoader[Any], Any]],
) -> None:
    loader, (stage, lane, batch, (item, *_)) = opened("several samples of each")
    with pytest.raises(StateError, match=r"expected an item 1000 of postencode_sample, which yields 2 for this sample"):
        loader.restore_sample((stage, lane, batch, ((item[0], 1000, item[2]),)))
    with pytest.raises(StateError, match=r"encode_sample is a generator, which may yield several samples"):
        loader.restore_sample((stage, lane, batch, (item[2],)))


def test_an_item_behind_the_last_one_of_an_iterator_ends_the_search(
    opened: Callable[[str], tuple[SavableDataLoader[Any], Any]],
) -> None:
    loader, (_, lane, batch, (item, *_)) = opened("iter-map")
    with pytest.raises(StateError, match="names no sample of this dataset"):
        loader.restore_sample((item[0], lane, batch, (item[0], _MAX_NUMBER, item[2])))
