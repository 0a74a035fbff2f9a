"""Runs whose weights are shares of volumes and change at steps or samples: shares, and resumes on other ranks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loader import (
    ConfigError,
    StateError,
    TaskEncoder,
    WorkerConfig,
    get_loader,
    get_savable_loader,
    sample_size_metric,
)
from tests.e2e.drawing_encoders import Cooking, PackingTwice, number_in
from tests.e2e.mixed_data import MixedData
from tests.e2e.test_volume_blends import CASES as CONSTANT, Sized, SizedPacks, blend_of, data, tokens_of, train
from tests.elastic_runs import Pipeline, Spread, check_every_save, sealed, through_json, uninterrupted

__all__ = ["data"]  # a fixture

pytestmark = pytest.mark.filterwarnings("ignore:samples of .* are reached twice")

ALONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)


class Plain(TaskEncoder[Any, Any, Any, Any]):
    @sample_size_metric
    def tokens(self, sample: Any) -> int:
        return tokens_of(number_in(sample))


def steps(*weights: float, every: int = 3) -> dict[int, float]:
    return {every * row: weight for row, weight in enumerate(weights)}


def ramp(*weights: float, every: int = 40) -> dict[str, Any]:
    return {"unit": "samples", "change": "linear", "at": steps(*weights, every=every)}


def write(data: MixedData, name: str, entries: list[Any], unit: str | None = "tokens") -> Path:
    split = {"blend": entries} | ({} if unit is None else {"blend_weight_unit": unit})
    return data.write(name, {"train": split})


@pytest.fixture(scope="module")
def scheduled(data: MixedData) -> MixedData:
    """Write metadatasets whose weights change."""
    for unit in ("tokens", "letters"):
        entries: list[Any] = [{"weight": steps(2, 0, 1), "path": "texts"}, {"weight": steps(0, 1, 5), "path": "more"}]
        write(data, f"steps_{unit}.yaml", entries, unit)
        entries = [{"weight": ramp(2, 0, 1), "path": "texts"}, {"weight": 1, "path": "more"}]
        write(data, f"ramp_{unit}.yaml", entries, unit)
    inner: list[Any] = [
        {"weight": steps(0, 1, every=4), "path": "texts"},
        {"weight": 1, "path": "more", "split_part": "val"},
    ]
    write(data, "inner.yaml", inner, None)
    outer: list[Any] = [{"weight": steps(1, 3, 0, 1), "path": "inner.yaml"}, {"weight": 1, "path": "more"}]
    write(data, "nested_steps.yaml", outer)
    inner = [{"weight": ramp(0, 1), "path": "texts"}, {"weight": 1, "path": "more", "split_part": "val"}]
    write(data, "inner_pages.yaml", inner, "pages")
    write(data, "nested_ramp.yaml", [{"weight": 2, "path": "inner_pages.yaml"}, {"path": "more"}], None)
    return data


CASES: dict[str, tuple[str, type[Any], dict[str, Any]]] = {
    "steps": ("steps_tokens.yaml", Sized, {}),
    "a linear change over samples": ("ramp_tokens.yaml", Sized, {}),
    "nested, steps": ("nested_steps.yaml", Sized, {}),
    "nested, samples": ("nested_ramp.yaml", Sized, {}),
    "steps, packing after the metric": ("steps_tokens.yaml", SizedPacks, {"packing_buffer_size": 7}),
    "samples, packing after the metric": ("ramp_tokens.yaml", SizedPacks, {"packing_buffer_size": 7}),
    "steps, packs": ("steps_letters.yaml", SizedPacks, {"packing_buffer_size": 7}),
    "samples, packs": ("ramp_letters.yaml", SizedPacks, {"packing_buffer_size": 7}),
    "steps, column": ("steps_tokens.yaml", Cooking, {"batch_size": 2}),
    "samples, column, packing": ("ramp_tokens.yaml", PackingTwice, {"packing_buffer_size": 7}),
}


@pytest.mark.parametrize("every", [7, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(8)
def test_a_run_whose_weights_change_continues_exactly_on_other_ranks(
    scheduled: MixedData, case: str, every: int
) -> None:
    name, encoder, options = CASES[case]
    pipeline = Pipeline(build=partial(train, scheduled, name, encoder, **options), batches=24, lanes=4)
    began = Spread(2)  # its steps are those at which weights change
    others = [Spread(1), Spread(4), Spread(1, 2), Spread(2, 1)]
    check_every_save(pipeline, began, others, reference=uninterrupted(pipeline, began), every=every)


def volumes_by_step(dataset: Any, batches: int) -> Iterator[tuple[int, list[int]]]:
    """Yield the micro-batches of a run with one lane and single samples, and the numbers of their samples."""
    for number, batch in enumerate(islice(get_loader(dataset), batches)):
        yield number, [int(key.rpartition("/")[2]) for key in batch.__key__]


def test_each_dataset_has_the_sum_of_its_shares_at_every_step_of_a_lane(scheduled: MixedData) -> None:
    entries = [{"weight": steps(2, 0, 1, every=50), "path": "texts"}, {"weight": 1, "path": "more"}]
    write(scheduled, "long.yaml", entries)
    share_of = {0: 2 / 3, 1: 0.0, 2: 0.5}
    volume, target, total, lack = 0.0, 0.0, 0.0, 0.0
    texts = set()
    for number, samples in volumes_by_step(train(scheduled, "long.yaml", Plain, ALONE), 300):
        stretch = min(2, number // 50)
        for sample in samples:
            size = tokens_of(sample)
            total += size
            target += share_of[stretch] * size
            if sample < 5000:
                volume += size
                texts.add(stretch)
            assert volume - target <= 200
            assert target - volume <= 200 + 200 * share_of[0] + lack
    assert texts == {0, 2}, "a dataset of weight 0 comes"
    assert total > 10_000


def test_a_change_comes_at_the_first_micro_batch_of_its_step_whatever_is_skipped(scheduled: MixedData) -> None:
    entries = [{"weight": {0: 1, 5: 0}, "path": "texts"}, {"weight": {0: 0, 5: 1}, "path": "more"}]
    write(scheduled, "switch.yaml", entries)
    for encoder in (Plain, Sized):  # the latter skips and repeats samples
        for number, samples in volumes_by_step(train(scheduled, "switch.yaml", encoder, ALONE), 20):
            assert all((sample >= 5000) == (number >= 5) for sample in samples), number


def test_samples_are_those_that_the_readers_of_all_lanes_have_read(scheduled: MixedData) -> None:
    at = {"unit": "samples", "at": {0: 1, 40: 0}}
    entries = [{"weight": at, "path": "texts"}, {"weight": {"unit": "samples", "at": {0: 0, 40: 1}}, "path": "more"}]
    write(scheduled, "after_40.yaml", entries)
    dataset = train(scheduled, "after_40.yaml", Plain, batch_size=1)
    numbers = [samples[0] for _, samples in volumes_by_step(dataset, 80)]
    assert [number < 5000 for number in numbers] == [True] * 40 + [False] * 40
    loader = get_savable_loader(train(scheduled, "after_40.yaml", Plain, batch_size=1))
    list(islice(loader, 50))
    blends = [next(value for key, value in lane.items() if key.endswith("blend")) for lane in lanes_of(loader)]
    assert [blend["read"] for blend in blends] == [13, 13, 12, 12]
    assert {blend["stretch"]["number"] for blend in blends} == {1}


def lanes_of(loader: Any) -> list[dict[str, Any]]:
    return list(through_json(loader.save_state_rank())["lane"].values())


def test_blends_of_constant_weights_have_the_states_of_before(scheduled: MixedData) -> None:
    loader = get_savable_loader(train(scheduled, "nested.yaml", Sized))
    list(islice(loader, 8))
    blend = next(value for key, value in lanes_of(loader)[0].items() if key.endswith("blend"))
    assert blend.keys() <= {"total", "volumes", "0", "1"}
    assert "schedule" not in str(blend_of(train(scheduled, "nested.yaml", Sized)).identity())


def test_a_damaged_stretch_is_refused(scheduled: MixedData) -> None:
    loader = get_savable_loader(train(scheduled, "steps_tokens.yaml", Sized))
    list(islice(loader, 8))
    for damage in ({"number": 9}, {"number": -1}, {"total": "x"}, {"items": 0.5}, {"targets": [[0]]}):
        state = through_json(loader.save_state_rank())
        next(value for key, value in state["lane"]["0"].items() if key.endswith("blend"))["stretch"] |= damage
        restored = get_savable_loader(train(scheduled, "steps_tokens.yaml", Sized))
        with pytest.raises(StateError, match="damaged"):
            next(iter(restored.with_restored_state_rank(sealed(state))))


def test_units_of_steps_and_samples_do_not_mix_in_a_tree(scheduled: MixedData) -> None:
    write(scheduled, "both.yaml", [{"weight": steps(1, 2), "path": "inner_pages.yaml"}, {"path": "more"}])
    with pytest.raises(ConfigError, match="some weights change at steps and others at samples"):
        train(scheduled, "both.yaml", Sized)
    assert CONSTANT


def edited(data: MixedData, name: str, states: Any, ranks: int, batches: int, *, allow: bool = False) -> Any:
    """Restore a run, and return its micro-batches in order and its states."""
    loaders = [
        get_savable_loader(train(data, name, Sized, WorkerConfig(rank=rank, world_size=ranks, num_workers=0)))
        for rank in range(ranks)
    ]
    for loader in loaders:
        loader.restore_state_global(states, allow_mix_change=allow)
    iterators = [iter(loader) for loader in loaders]
    found = [next(one).__key__ for _ in range(batches // ranks) for one in iterators]
    return found, through_json([loader.save_state_rank() for loader in loaders])


@pytest.mark.parametrize("first", ["steps_tokens.yaml", "tokens.yaml"])
@pytest.mark.sampled(2)
def test_a_schedule_is_edited_and_resumed_on_other_ranks(
    scheduled: MixedData, caplog: pytest.LogCaptureFixture, first: str
) -> None:
    write(scheduled, "later.yaml", [{"weight": {0: 2, 12: 0}, "path": "texts"}, {"weight": 1, "path": "more"}])
    configs = [WorkerConfig(rank=rank, world_size=2, num_workers=0, lanes=4) for rank in range(2)]
    loaders = [get_savable_loader(train(scheduled, first, Sized, config)) for config in configs]
    for loader in loaders:
        list(islice(loader, 8))
    states = through_json([loader.save_state_rank() for loader in loaders])
    found, after = edited(scheduled, "later.yaml", states, 1, 12, allow=True)
    before = "1, 0 from step 3, 0.167 from step 6" if first.startswith("steps") else "0.667"
    assert f"weight schedule {before} → 0.667, 0 from step 12" in caplog.text
    again, _ = edited(scheduled, "later.yaml", states, 4, 12, allow=True)
    assert found == again
    by_texts = [any("/00" in key for key in keys) for keys in found]
    assert sum(by_texts[:8]) > 4
    assert not any(by_texts[8:]), "step 12 is micro-batch 24 of a run that began on 2 ranks"
    resumed, states = edited(scheduled, "later.yaml", after, 4, 12)
    assert resumed == edited(scheduled, "later.yaml", after, 2, 12)[0]
    # The schedule is removed.
    caplog.clear()
    one, _ = edited(scheduled, "tokens.yaml", states, 1, 12, allow=True)
    assert "weight schedule 0.667, 0 from step 12 → 0.667" in caplog.text
    assert one == edited(scheduled, "tokens.yaml", states, 2, 12, allow=True)[0]


def schedule_in(identity: Any) -> dict[str, Any]:
    """Return the schedule in the description of a chain with one input a stage, down to the blend or reader."""
    settings: dict[str, Any] = identity[1]
    return settings["schedule"] if "schedule" in settings else schedule_in(identity[2])


DAMAGED_SCHEDULES: list[dict[str, Any]] = [
    {"unit": None},
    {"unit": "tokens"},
    {"starts": [0, 60, 30]},
    {"starts": ["0", "x", None]},
    {"starts": [0, 30, 10**30]},
    {"starts": [0, 30]},
    {"starts": [*range(1001)], "weights": [1, 2]},
    {"weights": [[2, float("nan"), 1], [0, 1, 5]]},
    {"weights": [[2, float("inf"), 1], [0, 1, 5]]},
    {"weights": [[2, -1, 1], [0, 2, 5]]},
    {"weights": [[0, 0, 1], [0, 1, 5]]},
    {"weights": [[2, "0", 1], [0, 1, 5]]},
    {"weights": [[2, 0, 1]]},
]


@pytest.mark.parametrize("unit", ["tokens", None])
def test_a_damaged_schedule_of_a_saved_mix_is_refused(
    scheduled: MixedData, caplog: pytest.LogCaptureFixture, unit: str | None
) -> None:
    def mix(name: str, *weights: float) -> str:
        at = [{"unit": "samples", "at": steps(*own, every=30)} for own in (weights, (0, 1, 5))]
        return write(
            scheduled, name, [{"weight": at[0], "path": "texts"}, {"weight": at[1], "path": "more"}], unit
        ).name

    before, after = mix("before.yaml", 2, 0, 1), mix("after.yaml", 2, 0, 3)
    loader = get_savable_loader(train(scheduled, before, Sized))
    list(islice(loader, 8))
    for damage in DAMAGED_SCHEDULES:
        state = through_json(loader.save_state_rank())
        schedule_in(state["dataset"]).update(damage)
        with pytest.raises(StateError, match="this state is damaged: the weights of"):
            get_savable_loader(train(scheduled, after, Sized)).restore_state_rank(sealed(state), allow_mix_change=True)
    assert "continues" not in caplog.text
    restored = get_savable_loader(train(scheduled, after, Sized))
    restored.restore_state_rank(loader.save_state_rank(), allow_mix_change=True)
    assert "weight schedule 1, 0 from sample 30, 0.167 from sample 60 → 1, 0 from sample 30, 0.375" in caplog.text


def test_schedules_of_nested_blends_multiply(scheduled: MixedData) -> None:
    inner = [{"weight": steps(1, 3, 0, every=200), "path": "texts"}, {"path": "more"}]
    write(scheduled, "inner_tokens.yaml", inner)
    outer = [{"weight": steps(1, 1, 4, every=200), "path": "inner_tokens.yaml"}, {"path": "texts", "split_part": "val"}]
    write(scheduled, "outer_tokens.yaml", outer)
    asked = [(0.25, 0.25, 0.5), (0.375, 0.125, 0.5), (0.0, 0.8, 0.2)]
    targets, volumes = [0.0] * 3, [0.0] * 3
    for number, batch in enumerate(islice(get_loader(train(scheduled, "outer_tokens.yaml", Plain, ALONE)), 600)):
        for key in batch.__key__:
            sample = int(key.rpartition("/")[2])
            leaf = 1 if sample >= 5000 else 2 if key.startswith("val_") else 0
            size = tokens_of(sample)
            volumes[leaf] += size
            targets = [target + share * size for target, share in zip(targets, asked[number // 200], strict=True)]
        for volume, target in zip(volumes, targets, strict=True):
            assert abs(volume - target) < 4 * 200  # samples have up to 200 tokens, and each blend has its own distance
    assert sum(volumes) > 20_000
