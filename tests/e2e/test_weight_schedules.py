"""Weights that change during a run: the samples that come, exact resume around a change, and edits of the schedule."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from loader import (
    BlendDataset,
    ConfigError,
    SavableDataset,
    StateError,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    get_savable_loader,
    get_val_dataset,
    random_access,
    stateless,
)
from tests.e2e.rank_processes import rank_processes
from tests.e2e.test_edited_mixes import (
    FIRST,
    LANES,
    Build,
    Followed,
    Mixes,
    assert_continued,
    following,
    leaf,
    packed,
    refusal,
    sequences,
    train,
    without,
)
from tests.e2e.text_dataset import write_texts
from tests.elastic_runs import Pipeline, Spread, check_every_save, number_of

LONG = {"a": {0: 3.0, 10: 1.0, 25: 0.0}, "b": 1.0, "c": {0: 0, 25: 1}}
"""Weights of datasets, by step."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Mixes:
    folder = tmp_path_factory.mktemp("scheduled")
    for name, first in FIRST.items():
        write_texts(folder / name, train=(41, 13, 30), val=(17, 20), first=first)
    return Mixes(folder)


def mix(data: Mixes, weights: Mapping[str, Any]) -> Path:
    return data.write(*(leaf(name, weight) for name, weight in weights.items()))


def counts(batches: Followed, numbers: range) -> Counter[str]:
    """Count the samples of each dataset in some micro-batches."""
    names = [list(FIRST)[number // 1000] for batch in numbers for number in batches[batch]]
    return Counter(names)


def batches_of(build: Build, spread: Spread, count: int, states: Any = None) -> Followed:
    with following(build, spread, states) as run:
        return run.steps(count)


# -------------------------------------------------------------------------------------------------------- the samples


@pytest.mark.parametrize("spread", [Spread(1), Spread(2, 2), Spread(4, 1)])
@pytest.mark.sampled(3)
def test_the_weights_change_at_their_steps(data: Mixes, spread: Spread) -> None:
    build = partial(train, mix(data, LONG), batch_size=10)
    found = batches_of(build, spread, 40 * spread.ranks)
    first, second, third = (
        counts(found, range(start * spread.ranks, stop * spread.ranks)) for start, stop in ((0, 10), (10, 25), (25, 40))
    )
    samples = 10 * spread.ranks
    assert set(first) == set(second) == {"a", "b"}
    assert set(third) == {"b", "c"}
    assert abs(first["a"] - 7.5 * samples) < LANES  # each lane rounds by less than a sample
    assert abs(second["a"] - 7.5 * samples) < LANES
    assert abs(third["b"] - 7.5 * samples) < 6 * LANES  # the last stretch has no end at which its shares are exact


def test_samples_are_those_of_the_whole_run_spread_over_its_lanes(data: Mixes) -> None:
    weights = {"a": {"unit": "samples", "at": {0: 1, 37: 0}}, "b": {"unit": "samples", "at": {0: 0, 37: 1}}}
    build = partial(train, mix(data, weights), batch_size=10)
    found = batches_of(build, Spread(1), 8)
    for spread in (Spread(4), Spread(2, 1)):
        assert batches_of(build, spread, 8) == found
    first = [counts(found, range(batch, batch + 1))["a"] for batch in range(8)]
    assert first == [10, 9, 9, 9, 0, 0, 0, 0]


def test_a_linear_change_is_one_of_32_stretches(data: Mixes) -> None:
    weights = {"a": {"change": "linear", "at": {0: 1, 8: 1, 72: 0}}, "b": 1.0}
    found = batches_of(partial(train, mix(data, weights), batch_size=32), Spread(1), 80)
    assert abs(counts(found, range(8))["a"] - 4 * 32) < LANES
    for part in range(32):
        weight = 1 - (part + 0.5) / 32
        numbers = range(8 + 2 * part, 10 + 2 * part)
        assert abs(counts(found, numbers)["a"] - 64 * weight / (1 + weight)) < LANES
    assert counts(found, range(72, 80)) == {"b": 8 * 32}


def test_shares_of_nested_blends_are_products(data: Mixes) -> None:
    inner = mix(data, {"a": {0: 1, 20: 0}, "b": 1})
    outer = mix(data, {inner.name: {0: 1, 10: 3}, "c": 1})
    found = batches_of(partial(train, outer, batch_size=20), Spread(1), 40)
    for (start, stop), shares in (
        ((0, 10), {"a": 1 / 4, "b": 1 / 4, "c": 1 / 2}),
        ((10, 20), {"a": 3 / 8, "b": 3 / 8, "c": 1 / 4}),
    ):
        total = counts(found, range(start, stop))
        assert all(abs(total[name] - 200 * share) < LANES for name, share in shares.items())
    assert set(counts(found, range(20, 40))) == {"b", "c"}


def test_an_order_that_is_not_shuffled_follows_the_schedule(data: Mixes) -> None:
    weights = {"a": {0: 1, 4: 0}, "b": {0: 0, 4: 1}}
    options: dict[str, Any] = {"shuffle_buffer_size": None, "shuffle_over_epochs_multiplier": None}
    found = batches_of(partial(train, mix(data, weights), batch_size=6, **options), Spread(1), 8)
    assert [number for batch in range(8) for number in found[batch]] == [*range(24), *range(1000, 1024)]


def test_validation_and_random_access_ignore_weights_that_change(data: Mixes) -> None:
    document = data.folder / "val.yaml"
    splits = {"val": {"blend": [leaf("a", {0: 1, 10: 0}), leaf("b", 1)]}}  # type: ignore[arg-type]
    header = {"__module__": "megatron.energon", "__class__": "MetadatasetV2"}
    document.write_text(yaml.safe_dump({**header, "splits": splits}))
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    loader = get_savable_loader(get_val_dataset(document, worker_config=config, batch_size=1))
    assert len(list(loader)) == 74
    assert len(random_access(document, "val")) == 74


# ------------------------------------------------------------------------------------------------------------- resume


@pytest.mark.parametrize("steps", [10, 24, *(pytest.param(steps, marks=pytest.mark.slow) for steps in (9, 11, 26))])
@pytest.mark.sampled(2)
def test_a_run_resumes_exactly_on_other_ranks_and_workers_around_a_change(data: Mixes, steps: int) -> None:
    build = partial(train, mix(data, LONG), batch_size=6)
    whole = batches_of(build, Spread(2), 84)
    with following(build, Spread(2, 1), None) as run:
        assert run.steps(2 * steps) == {batch: whole[batch] for batch in range(2 * steps)}
        states = run.states()
    for spread in (Spread(1), Spread(2), Spread(4, 1)):
        with following(build, spread, states) as run:
            resumed = run.steps(80 - 2 * steps)
            again = run.states()
        assert resumed == {batch: whole[batch] for batch in resumed}
        settings = again[0]["dataset"][2][2][1]["schedule"]
        assert (settings["ranks"], settings["batch_samples"]) == (2, 6), "steps are those of the ranks at the beginning"


@pytest.mark.slow
def test_every_save_of_packs_and_groups_resumes_exactly(data: Mixes) -> None:
    samples = {"unit": "samples", "change": "linear", "at": {0: 0, 80: 3}}
    path = mix(data, {"a": samples, "b": {"unit": "samples", "at": {0: 1, 40: 2}}})
    for build in (partial(packed, path), partial(train, path, task_encoder=Grouping(), batch_size=3)):
        pipeline = Pipeline(build=build, batches=24, lanes=4)
        check_every_save(pipeline, Spread(2), [Spread(1), Spread(4), Spread(2, 1)], every=3)


class Grouping(TaskEncoder[Any, Any, Any, Any]):
    def batch_group_criterion(self, sample: TextSample) -> tuple[int, None]:
        return int(sample.text.split()[-1]) % 2, None


def on_real_ranks(rank: int, path: Path, ranks: int, states: Any, steps: int) -> tuple[Followed, Any]:
    """Continue on a rank of a process group, with a collective operation for each step."""
    from torch import distributed, tensor

    config = WorkerConfig(rank=rank, world_size=ranks, num_workers=rank % 2)
    loader = get_savable_loader(train(path, config, batch_size=6))
    loader.restore_state_global(states if rank == 0 else None, src_rank=0)
    found: Followed = {}
    for _, batch in zip(range(steps), loader, strict=False):
        found[number_of(batch)] = [int(text.split()[-1]) for text in batch.text]
        total = tensor(len(batch.text))
        distributed.all_reduce(total)
        assert int(total) == 6 * ranks
    saved = loader.save_state_global(0)
    loader.close()
    return found, saved


def test_real_ranks_of_a_process_group_continue_over_a_change(data: Mixes, tmp_path: Path) -> None:
    path = mix(data, LONG)
    build = partial(train, path, batch_size=6)
    whole = batches_of(build, Spread(2), 80)
    with following(build, Spread(2), None) as run:
        run.steps(16)  # step 8: the weights change at step 10
        states = run.states()
    with rank_processes(4, tmp_path) as group:
        by_rank = group.run(on_real_ranks, path, 4, states, 9)
    found = {batch: numbers for own, _ in by_rank for batch, numbers in own.items()}
    assert found == {batch: whole[batch] for batch in range(16, 52)}  # to step 26: they change at step 25, too
    with following(build, Spread(1), by_rank[0][1]) as run:
        assert run.steps(20) == {batch: whole[batch] for batch in range(52, 72)}


def test_a_run_that_is_saved_before_its_first_step_keeps_its_steps(data: Mixes) -> None:
    build = partial(train, mix(data, LONG), batch_size=6)
    whole = batches_of(build, Spread(2), 60)
    with following(build, Spread(2), None) as run:
        states = run.states()
    for spread in (Spread(1), Spread(4)):
        assert batches_of(build, spread, 60, states) == whole


def test_a_refused_state_leaves_the_steps_of_the_run(data: Mixes) -> None:
    build = partial(train, mix(data, LONG), batch_size=6)
    [expected] = (batches_of(build, Spread(1), 30),)
    with following(partial(train, mix(data, {**LONG, "b": 2}), batch_size=6), Spread(2), None) as run:
        run.steps(10)
        states = run.states()
    with following(build, Spread(1), None) as run:
        with pytest.raises(StateError, match="weight schedule"):
            run.loaders[0].restore_state_global(states)
        assert run.steps(30) == expected


def test_replay_and_rebuilt_samples_are_those_of_the_schedule(data: Mixes) -> None:
    build = partial(train, mix(data, LONG), batch_size=6)
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=LANES)
    loader = get_savable_loader(build(config))
    made = [batch for batch, _ in zip(loader, range(40), strict=False)]
    for step in (0, 9, 10, 24, 25, 39):
        assert loader.replay(step).text == made[step].text
        assert loader.restore_sample(made[step].__restore_key__).text == made[step].text
    skipping = get_savable_loader(build(config), skip_steps=[(5, 12)])
    rest = [batch.text for batch, _ in zip(skipping, range(20), strict=False)]
    assert rest == [made[step].text for step in (*range(5), *range(12, 27))]


def test_packed_samples_count_as_samples_and_not_as_steps(data: Mixes) -> None:
    samples = {"unit": "samples", "at": {0: 1, 96: 0}}
    build: Build = partial(packed, mix(data, {"a": samples, "b": 1}))
    whole = batches_of(build, Spread(1), 60)
    with following(build, Spread(2), None) as run:
        run.steps(20)
        states = run.states()
    with following(build, Spread(4, 1), states) as run:
        assert all(whole[batch] == numbers for batch, numbers in run.steps(40).items())
    assert counts(whole, range(30, 60)).keys() == {"b"}

    class Grouped(TaskEncoder[Any, Any, Any, Any]):
        def batch_group_criterion(self, sample: TextSample) -> tuple[int, None]:
            return len(sample.text), None

    class Doubled(TaskEncoder[Any, Any, Any, Any]):
        @stateless
        def encode_sample(self, sample: TextSample) -> Any:
            yield from (sample, sample)

    in_steps = mix(data, {"a": {0: 1, 96: 0}, "b": 1})
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    refused: list[Callable[[Path, WorkerConfig], Any]] = [packed]
    refused += [partial(train, task_encoder=encoder) for encoder in (Grouped(), Doubled())]
    for make in refused:
        with pytest.raises(ConfigError, match="not known ahead") as caught:
            make(in_steps, config)
        assert "unit: samples" in str(caught.value)


# -------------------------------------------------------------------------------------------------------------- edits


@pytest.mark.slow
def test_a_schedule_edited_twice_on_changing_ranks_is_followed_sample_by_sample(
    data: Mixes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="loader")
    first = partial(train, mix(data, {"a": {0: 3, 10: 1}, "b": 1, "c": {0: 0, 10: 2}}))
    # c is gone, and d comes at a step after this edit; b was not scheduled.
    second = partial(train, mix(data, {"d": {0: 0, 20: 2}, "a": {0: 3, 10: 1}, "b": {0: 1, 30: 3}}))
    third = partial(train, mix(data, {"c": 1, "a": 1, "b": 1, "d": 2}))  # no schedule; c is back
    with following(first, Spread(2), None) as run:
        undisturbed = sequences(run.steps(500))
    with following(first, Spread(2, 1), None) as run:
        one, states = run.steps(30), run.states()  # step 15

    found = refusal(second, states)
    assert "a, train: weight schedule 0.75, 0.25 from step 10 → 0.75, 0.5 from step 10, 0.25 from step 20" in found

    with following(second, Spread(4), states, allow=True) as run:
        two, states_after = run.steps(40), run.states()  # 70 micro-batches: step 35 of two ranks
        rest = {batch: numbers for batch, numbers in run.steps(120).items() if batch not in two}
    assert "weight schedule 0.25, 0.25 from step 10" not in caplog.text
    assert "c, train: gone, weight schedule 0, 0.5 from step 10" in caplog.text
    assert "d, train: new, weight schedule 0, 0.5 from step 20" in caplog.text
    with following(second, Spread(1, 2), states, allow=True) as run:
        assert run.steps(40) == two, "ranks and workers do not change an edited run"
    # The weights of the new mix are those of its step: 15 to 20, 20 to 30, and from 30 on, of two ranks.
    assert set(counts(two, range(30, 40))) == {"a", "b"}
    assert abs(counts(two, range(30, 40))["a"] - 10) < LANES
    assert abs(counts(two, range(40, 60))["d"] - 20) < LANES
    for name in "ab":
        assert_continued(name, sequences(one, two), undisturbed)

    with following(second, Spread(2, 1), states_after) as run:  # without the flag: the documents are the same
        assert run.steps(60) == {batch: rest[batch] for batch in range(70, 130)}
    caplog.clear()
    with following(third, Spread(1), states_after, allow=True) as run:
        three, states = run.steps(60), run.states()
    assert "a, train: continues at" in caplog.text
    assert "weight schedule 0.75, 0.5 from step 10, 0.25 from step 20, 0.167 from step 30 → 0.2" in caplog.text
    assert "c, train: continues at" in caplog.text
    for name in "abc":
        assert_continued(name, sequences(one, two, three), undisturbed)
    with following(second, Spread(1), states_after) as run:
        longer = sequences(two, run.steps(200))
    assert_continued("d", sequences(two, three), longer)
    with following(third, Spread(4, 1), states) as run:
        resumed = run.steps(24)
    assert resumed == batches_of(third, Spread(2), 24, states)
    assert abs(counts(resumed, range(130, 154))["d"] - 2 * 24 * 2 / 5) < 3 * LANES


def test_a_plain_mix_gets_a_schedule_whose_steps_count_from_the_beginning(data: Mixes) -> None:
    plain = partial(train, mix(data, {"a": 1, "b": 1}))
    scheduled = partial(train, mix(data, {"a": {0: 1, 20: 0}, "b": 1}))
    with following(plain, Spread(2), None) as run:
        run.steps(20)
        states = run.states()
    for spread in (Spread(1), Spread(4)):
        with following(scheduled, spread, states, allow=True) as run:
            found = run.steps(40)
            assert run.states()[0]["dataset"][2][2][1]["schedule"]["ranks"] == 2
        assert counts(found, range(20, 40))["a"] == 20
        assert set(counts(found, range(40, 60))) == {"b"}


def test_packed_samples_in_buffers_survive_an_edited_schedule(data: Mixes) -> None:
    def weights(end: float) -> dict[str, Any]:
        return {"a": {"unit": "samples", "at": {0: 1, 96: end}}, "b": 1}

    old, new = partial(packed, mix(data, weights(0.5))), partial(packed, mix(data, weights(3)))
    whole = sequences(batches_of(old, Spread(1), 300))
    with following(old, Spread(1), None) as run:
        before, states = run.steps(20), run.states()
    with following(new, Spread(2), states, allow=True) as run:
        after = run.steps(40)
    for name in "ab":
        for lane in range(LANES):
            assert not without(sequences(before, after)[lane, name], whole[lane, name])


def test_other_steps_and_other_weights_are_refused_by_their_schedules(data: Mixes) -> None:
    with following(partial(train, mix(data, {"a": {0: 1, 9: 3}, "b": 1})), Spread(1), None) as run:
        run.steps(4)
        states = run.states()
    found = refusal(partial(train, mix(data, {"a": {0: 1, 8: 3}, "b": 1})), states)
    assert "a, train: weight schedule 0.5, 0.75 from step 9 → 0.5, 0.75 from step 8" in found
    assert "allow_mix_change" in found
    found = refusal(partial(train, mix(data, {"a": 1, "b": 1})), states)
    assert "b, train: weight schedule 0.5, 0.25 from step 9 → 0.5" in found


def test_damaged_schedules_of_earlier_mixes_are_refused(data: Mixes) -> None:
    old, new = (partial(train, mix(data, {"a": {0: 1, 9: end}, "b": 1})) for end in (3, 2))
    with following(old, Spread(1), None) as run:
        run.steps(12)
        states = run.states()
    with following(new, Spread(1), states, allow=True) as run:
        run.steps(4)
        [state] = run.states()
    for name, value in (
        ("starts", [0]),
        ("starts", [1, 9]),
        ("starts", [0, "9"]),
        ("weights", [[0.5, -1.0], 0.5]),
        ("weights", [[0.5, float("nan")], 0.5]),
        ("weights", [0.5]),
        ("batch_samples", 0),
        ("unit", None),
    ):
        [stage] = state["mix_changes"][0]["stages"].values()
        saved = stage["schedule"]
        stage["schedule"] = {**saved, name: value}
        loader = get_savable_loader(new(WorkerConfig(rank=0, world_size=1, num_workers=0)))
        with pytest.raises(StateError, match="damaged"):
            loader.restore_state_rank(state)
        stage["schedule"] = saved


# ------------------------------------------------------------------------------------------------------------ refusals


def test_chains_built_by_hand_have_no_schedule(data: Mixes) -> None:
    class ByHand(TaskEncoder[Any, Any, Any, Any]):
        def build_train_datasets(self, *, datasets: Any, **options: Any) -> SavableDataset[Any]:
            return BlendDataset(*((one.dataset.build(), one.weight) for one in datasets))

    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    with pytest.raises(ConfigError, match="a chain built by hand has constant weights"):
        train(mix(data, LONG), config, task_encoder=ByHand())
    one = train(data.folder / "a", config)
    with pytest.raises(ConfigError, match="weights are numbers"):
        BlendDataset((one, {0: 1.0, 10: 0.5}), (one, 1))


def test_schedules_are_bounded(data: Mixes) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    late = mix(data, {"a": {0: 1, 10**11: 0}, "b": 1})
    with pytest.raises(ConfigError, match="a change at 100,000,000,000 steps, which is 1,000,000,000,000 samples"):
        train(late, config, batch_size=10)
    parts = [leaf("b", 1, subset={"range": [row, row + 1]}) for row in range(70)]
    many = data.write(leaf("a", {step: 1 + step % 3 for step in range(999)}), *parts)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="the weights change 998 times for 71 datasets; expected at most 65,536"):
        train(many, config)
