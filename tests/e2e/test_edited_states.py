"""Wrong values at each path of an edited state are refused by the name of the path, or change nothing."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from loader import SavableDataLoader, StateError, WorkerConfig, get_savable_loader
from tests.e2e.drawing_encoders import PackingYields
from tests.e2e.drawing_pipelines import Data, train, write_data
from tests.elastic_runs import fingerprint, through_json

WRONG: tuple[Any, ...] = (None, -1, 2**70, 1.5, float("nan"), "x", [], {}, True, b"", [7] * 20_000)
STEPS = 3

Path_ = tuple[Any, ...]
NAMES = {"steps": "", "lanes": "lane"}
"""How messages name paths, if not by their last key: the counts of ``steps`` by the stages that count."""
POSSIBLE: tuple[Path_, ...] = (("ended",), ("mix_changes", 0, "stages", "0 read", "weights", 0))
"""Paths of which some wrong values are possible ones, with which the run continues in another way."""


def blend(data: Data, weight: float) -> str:
    path = data.texts.parent / f"mix{weight}.yaml"
    leaves = [{"path": str(data.texts), "weight": weight}, {"path": str(data.more), "weight": 1}]
    document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": {"blend": leaves}}}
    path.write_text(yaml.safe_dump(document))
    return str(path)


def loader_of(data: Data, weight: float) -> SavableDataLoader[Any]:
    """Return the loader of a blend whose samples are packed, and whose packs are batched, in two lanes."""
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)
    mixed = Data(texts=Path(blend(data, weight)), more=data.more, crude=data.crude)
    return get_savable_loader(
        train(mixed, config, encoder=PackingYields, packing_buffer_size=7, virtual_epoch_length=40)
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("edited_states"))


@pytest.fixture(scope="module")
def state(data: Data) -> dict[str, Any]:
    """The state of a run whose mix changed, with all entries that a state may have."""
    first = loader_of(data, 2)
    list(islice(first, 5))
    second = loader_of(data, 3)
    second.restore_state_rank(first.save_state_rank(), allow_mix_change=True)
    list(islice(second, 4))
    saved: dict[str, Any] = through_json(second.save_state_rank())
    quarantined = [{"dataset": "gone", "uuid": None, "number": 3, "key": "0/1"}]
    return {
        **saved,
        "ranks_at": [[0, 2], [4, 1]],
        "skip_steps": [[1, 2, 2, 4]],
        "counted_on": 2,
        "deal": 0,
        "worker_restarts": 1,
        "quarantined": quarantined,
    }


def paths_in(value: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Yield the paths of the values in nested dicts and lists; of lists, those of the first value."""
    for key in value if isinstance(value, dict) else [0] if isinstance(value, list) and value else ():
        if (*at, key) != ("dataset",):  # compared with the run as a whole
            yield (*at, key)
            yield from paths_in(value[key], (*at, key))


def with_value(state: dict[str, Any], path: Path_, value: Any) -> dict[str, Any]:
    edited = copy.deepcopy(state)
    container: Any = edited
    for key in path[:-1]:
        container = container[key]
    container[path[-1]] = value
    return edited


def restore(loader: SavableDataLoader[Any], state: dict[str, Any]) -> str:
    """Restore an edited state, and return the message with which it was refused."""
    try:
        loader.restore_state_rank(state, allow_edited_state=True)
    except StateError as error:
        return str(error)
    return ""


def batches_or_message(loader: SavableDataLoader[Any]) -> tuple[list[Any], str]:
    try:
        return [fingerprint(batch) for batch in islice(loader, STEPS)], ""
    except StateError as error:
        return [], str(error)


def test_a_wrong_value_at_any_path_of_a_state_is_refused_by_the_name_of_the_path(
    data: Data, state: dict[str, Any]
) -> None:
    paths = [*paths_in(state)]
    assert len(paths) >= 66
    loader = loader_of(data, 3)
    assert not restore(loader, state)
    expected, _ = batches_or_message(loader)
    assert len(expected) == STEPS
    loader, refused = loader_of(data, 3), 0
    for path in paths:
        *_, name = (key for key in path if isinstance(key, str))
        for value in WRONG:
            message = restore(loader, with_value(state, path, value))
            if message:
                assert NAMES.get(name, name) in message, (path, value)
                refused += 1
                continue
            # The types are right: what no stage can open, or the run cannot continue with, is refused then.
            batches, message = batches_or_message(loader)
            if message:
                assert path[0] == "mix_changes" or f"lane {path[1]} of the state" in message, (path, value)
                refused += 1
            else:
                assert batches == expected or value in ([], {}) or path in POSSIBLE, (path, value)
            loader = loader_of(data, 3)
    assert refused > 0.9 * len(paths) * len(WRONG)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("batch",), -1, "expected 'batch' to be an integer >= 0, found -1"),
        (("lane", "0", "made"), 2**70, "lane 0: expected 'made' to be an integer <= 9007199254740991, found 1180591"),
        (("lane", "0", "0 read"), 1.5, "lane 0: expected '0 read' to be an integer, found 1.5"),
        (
            ("lane", "1", "2 preencode_sample", 1),
            None,
            r"lane 1: expected '2 preencode_sample\[1\]' to be an integer, found None",
        ),
        (
            ("lane", "0", "3 select_samples_to_pack", "groups", 0, 0),
            True,
            r"lane 0: expected '3 select_samples_to_pack.groups\[0\]\[0\]' to be an item id, found True",
        ),
        (("lane", "0"), "x", "lane 0: expected a dict, found 'x'"),
        (("lane", "0", "made"), b"", "it holds a bytes, and a state is plain data, at lane.0.made"),
        (("kind",), "x", "expected 'kind' to be a text matching regex .*, found 'x'"),
        (
            ("mix_changes", 0, "stages", "0 read", "lanes", "1"),
            -1,
            r"change 0 of the mix: 0 read: expected 'lanes\[...\]' to be an integer >= 0",
        ),
        (
            ("mix_changes", 0, "stages", "0 read", "origins"),
            [0, 0],
            "change 0 of the mix: 0 read: expected different origins below the next one",
        ),
    ],
)
def test_a_message_has_the_path_and_what_was_expected_and_found(
    path: Path_, value: Any, message: str, data: Data, state: dict[str, Any]
) -> None:
    with pytest.raises(StateError, match=f"^this state is damaged: {message}"):
        loader_of(data, 3).restore_state_rank(with_value(state, path, value), allow_edited_state=True)
