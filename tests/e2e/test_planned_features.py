"""Planned runs have filters, joins, schedules, passes, served ranks and lost workers; what cannot work is refused."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loader import (
    BatchDataset,
    ConfigError,
    FatalSampleError,
    SkipSample,
    StateError,
    WorkerConfig,
    build_filter_index,
    get_savable_loader,
    get_val_dataset,
    get_val_datasets,
    sample_size_metric,
    stateless,
)
from loader.inspect.runs import open_run, trace_step
from loader.metadataset.joins.prepare_metadataset import prepare_metadataset
from loader.testing.stage import check_resumes
from tests.e2e.test_planned_runs import (
    BALANCED,
    FILLED,
    PACKS,
    Tokens,
    batches,
    build,
    keys_in,
    tokens_of,
    write_tokens,
)
from tests.e2e.text_dataset import exclude, write_texts
from tests.elastic_runs import Pipeline, Spread, check_every_save

HEAD = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n"
PLANS = {"packs": PACKS, "balanced": BALANCED, "filled": FILLED}
ONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two datasets, one with a filter and excluded samples, and documents that mix and join them."""
    folder = tmp_path_factory.mktemp("features")
    for name, first in (("texts", 0), ("more", 5000)):
        write_texts(folder / name, train=(41, 13, 30), val=(20, 1, 40), first=first)
        write_tokens(folder / name)
    build_filter_index(folder / "texts", "third", list(range(0, 84, 3)))
    (folder / "changing.yaml").write_text(
        HEAD + "    blend: [{weight: {unit: samples, at: {0: 5, 60: 0}}, path: texts}, {weight: 1, path: more}]\n"
    )
    (folder / "join.yaml").write_text(
        HEAD + "    joiner: {__module__: tests.e2e.test_planned_features, __function__: first_of}\n"
        "    join:\n      text: {path: texts}\n      other: {path: more, nonmatch: none}\n"
    )
    prepare_metadataset(folder / "join.yaml")
    return folder


def first_of(text: Any, other: Any) -> Any:
    return text


class Padded(Tokens):
    """Its padding has no keys."""

    def padding_batch(self, batch: Any) -> Any:
        return {"__key__": [], "__restore_key__": ()}


def numbers_of(some: list[Any]) -> Counter[int]:
    return Counter(number_in(key) for batch in some for key in keys_in(batch))


def number_in(key: str) -> int:
    return int(key.rpartition("/")[2])


@pytest.mark.parametrize("options", PLANS.values(), ids=PLANS)
def test_weights_that_change_with_samples_change_at_windows(options: dict[str, Any], data: Path) -> None:
    options = options | {"name": "changing.yaml", "plan_window": 12}
    pipeline = Pipeline(build=partial(build, data, **options), lanes=2, batches=24)
    check_every_save(pipeline, Spread(2), [Spread(1)], every=9)
    made = batches(build(data, ONE, **options), 80)
    early, late = numbers_of(made[:6]), numbers_of(made[60:])
    assert sum(times for key, times in early.items() if key < 5000) > 0.6 * early.total()
    assert all(key >= 5000 for key in late)


@pytest.mark.parametrize("options", PLANS.values(), ids=PLANS)
def test_filtered_and_excluded_samples_take_no_place_in_a_plan(
    options: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    some = numbers_of(batches(build(data, ONE, **options, filter_name="third", repeat=False), None))
    assert some == Counter(range(0, 84, 3))
    write_texts(tmp_path / "texts", train=(41, 13, 30), val=(3,))
    write_tokens(tmp_path / "texts")
    exclude(tmp_path / "texts", "train_0.tar/00004", "train_1.tar/00050")
    made = batches(build(tmp_path, ONE, **options, repeat=False), None)
    assert numbers_of(made) == Counter({*range(84)} - {4, 50})
    if options is BALANCED:
        assert [len(batch["__key__"]) for batch in made].count(4) == 82 // 4


def test_the_rows_of_a_join_cost_what_their_first_member_does(data: Path) -> None:
    made = batches(build(data, ONE, name="join.yaml", **PACKS), 30)
    assert all(len(pack["tokens"]) <= 100 for pack in made)
    assert len({len(pack["__key__"]) for pack in made}) > 1


@pytest.mark.parametrize("options", PLANS.values(), ids=PLANS)
def test_ranks_of_a_validation_pass_have_equal_numbers_of_planned_batches(options: dict[str, Any], data: Path) -> None:
    configs = [WorkerConfig(rank=rank, world_size=3, num_workers=0, lanes=6) for rank in range(3)]
    planned: dict[str, Any] = {"plan_window": 24, "task_encoder": Padded()} | options
    padded = [
        [*get_savable_loader(get_val_dataset(data / "texts", worker_config=config, pad_ranks=True, **planned))]
        for config in configs
    ]
    assert len({len(rank) for rank in padded}) == 1
    assert numbers_of([batch for rank in padded for batch in rank]) == Counter(range(84, 145))
    [(dataset, _)] = get_val_datasets(data / "texts", worker_config=ONE, **planned)
    assert numbers_of(batches(dataset, None)) == Counter(range(84, 145))


def test_ranks_drop_the_rest_of_a_planned_validation_pass(data: Path) -> None:
    loaders = [
        get_savable_loader(get_val_dataset(data / "texts", worker_config=config, even_ranks=True, **BALANCED))
        for config in [WorkerConfig(rank=rank, world_size=3, num_workers=0, lanes=6) for rank in range(3)]
    ]
    even = [[*loader] for loader in loaders]
    assert len({len(rank) for rank in even}) == 1
    assert len([sample for rank in even for batch in rank for sample in batch.__key__]) == 60


@pytest.mark.parametrize("options", PLANS.values(), ids=PLANS)
def test_a_process_that_serves_two_ranks_gives_their_batches_and_totals(options: dict[str, Any], data: Path) -> None:
    configs = [WorkerConfig(rank=rank, world_size=2, num_workers=0, lanes=4) for rank in range(2)]
    alone = [get_savable_loader(build(data, config, **options)) for config in configs]
    serving = get_savable_loader(build(data, configs[0], **options), serves=[0, 1])
    for served, *expected in zip(serving, *alone, range(12), strict=False):
        assert [keys_in(batch) for batch in served] == [keys_in(batch) for batch in expected[:2]]
    assert serving.step_totals(7) == alone[1].step_totals(7)


def test_killed_workers_change_no_planned_batch(data: Path) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=2, lanes=4)
    expected = [keys_in(batch) for batch in batches(build(data, ONE, **PACKS), 30)]
    with get_savable_loader(build(data, config, **PACKS), max_worker_restarts=3) as loader:
        made = []
        for step, batch in enumerate(islice(loader, 30)):
            made.append(keys_in(batch))
            if step == 11:
                stream: Any = loader.run.lanes.start()
                os.kill(stream.source.pid(0), signal.SIGKILL)
        assert loader.save_state_rank()["worker_restarts"] == 1
    assert made == expected


class Keys(Tokens):
    """Samples are their keys, which can be compared."""

    @stateless
    def encode_sample(self, sample: Any) -> Any:
        return {"__key__": sample.__key__, "__restore_key__": sample.__restore_key__}


@pytest.mark.parametrize("options", [*PLANS.values(), PACKS | {"batch_size": 2}], ids=[*PLANS, "two packs"])
@pytest.mark.parametrize("repeat", [True, False])
def test_chains_with_a_plan_resume_at_each_step(options: dict[str, Any], repeat: bool, data: Path) -> None:
    check_resumes(build(data, ONE, encoder=Keys, **options, repeat=repeat), count=2, most=20)


# --------------------------------------------------------------------------------------------- packs of measured costs


class SkippingMany(Tokens):
    """Skips so many samples that some packs lose all."""

    def encode_sample(self, sample: Any) -> Any:
        if int(sample.text.split()[1]) % 3:
            raise SkipSample
        return super().encode_sample(sample)


class Measured(Tokens):
    """The costs of its samples are no column."""

    @sample_size_metric
    def letters(self, sample: Any) -> int:
        return len(sample["tokens"])


LETTERS: dict[str, Any] = {
    "packing": "best_fit",
    "pack_capacity": {"letters": 100},
    "batch_size": None,
    "packing_buffer_size": 30,
    "encoder": Measured,
}


def test_costs_that_no_column_has_are_packed_over_the_buffer(data: Path) -> None:
    pipeline = Pipeline(build=partial(build, data, **LETTERS), lanes=4, batches=36)
    check_every_save(pipeline, Spread(2), [Spread(1), Spread(2, 1)], every=12)
    made = batches(build(data, ONE, **LETTERS, repeat=False), None)
    assert numbers_of(made) == Counter(range(84))
    lengths = [len(pack["tokens"]) for pack in made]
    assert max(lengths) <= 100
    assert [len(pack["tokens"]) for pack in made] == [int(pack["cu_seqlens"][-1]) for pack in made]
    with pytest.raises(ConfigError, match="their costs are unknown before the run"):
        get_savable_loader(build(data, ONE, **LETTERS)).step_totals(0)
    with pytest.raises(ConfigError, match="packing_buffer_size is None"):
        build(data, ONE, **LETTERS | {"packing_buffer_size": None})
    with pytest.raises(ConfigError, match="'letters' is not a column, and 'tokens' is not a metric of Measured"):
        build(data, ONE, **LETTERS | {"pack_capacity": {"letters": 100, "tokens": 80}})


def test_measured_samples_above_the_capacity_are_named_skipped_or_alone(data: Path) -> None:
    small = LETTERS | {"pack_capacity": {"letters": 30}, "repeat": False}
    with pytest.raises(FatalSampleError, match=r"above the capacity of a pack: 'train_\d.tar/\d+' has letters 3\d"):
        batches(build(data, ONE, **small), None)
    skipped, alone = (batches(build(data, ONE, **small, oversized=oversized), None) for oversized in ("skip", "alone"))
    assert max(len(pack["tokens"]) for pack in skipped) <= 30
    assert numbers_of(skipped) == Counter(number for number in range(84) if tokens_of(number) <= 30)
    assert numbers_of(alone) == Counter(range(84))
    assert all(len(pack["__key__"]) == 1 for pack in alone if len(pack["tokens"]) > 30)


# ------------------------------------------------------------------------------------------------------------ refusals


class ByHand(Tokens):
    def build_train_datasets(self, *, datasets: Any, batch_size: Any, **_options: Any) -> Any:
        return BatchDataset(datasets[0].dataset.build(), batch_size)


class OfEarlierVersion(Tokens):
    def build_train_datasets(  # type: ignore[override]
        self,
        *,
        datasets: Any,
        worker_config: Any,
        batch_size: Any,
        batch_drop_last: Any,
        packing_buffer_size: Any,
        virtual_epoch_length: Any,
        shuffle_buffer_size: Any,
        repeat: Any,
    ) -> Any:
        return BatchDataset(datasets[0].dataset.build(), batch_size)


class Grouped(Tokens):
    def batch_group_criterion(self, sample: Any) -> Any:
        return len(sample["tokens"]) > 10, None


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (ByHand, "ByHand.build_train_datasets builds a chain without the balance, packing or batch_cost of this run"),
        (OfEarlierVersion, "OfEarlierVersion.build_train_datasets builds a chain without the balance"),
        (Grouped, "Grouped.batch_group_criterion groups samples after they are read"),
    ],
)
def test_hooks_that_cannot_follow_a_plan_are_refused(encoder: Any, message: str, data: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        build(data, ONE, encoder=encoder, **BALANCED)


def test_a_buffer_next_to_a_plan_has_no_effect(data: Path) -> None:
    with pytest.warns(UserWarning, match="packing_buffer_size has no effect next to balance, packing or batch_cost"):
        dataset = build(data, ONE, **PACKS, packing_buffer_size=50)
    assert str(dataset) == str(build(data, ONE, **PACKS))
    with pytest.warns(UserWarning, match="packing_buffer_size has no effect"):
        get_val_dataset(data / "texts", worker_config=ONE, packing_buffer_size=50, **BALANCED)


def test_fewer_lanes_than_workers_are_refused(data: Path) -> None:
    config = WorkerConfig(rank=0, world_size=2, num_workers=2, lanes=2)
    with pytest.raises(ConfigError, match="expected a lane for each worker, found 2 lanes for 4 workers on 2 ranks"):
        build(data, config, **PACKS)


def test_the_dataset_of_a_mix_that_lacks_the_column_is_named(tmp_path: Path) -> None:
    for name, first in (("texts", 0), ("more", 5000)):
        write_texts(tmp_path / name, train=(41, 30), val=(5,), first=first)
    write_tokens(tmp_path / "texts")
    (tmp_path / "mix.yaml").write_text(HEAD + "    blend: [{weight: 1, path: texts}, {weight: 1, path: more}]\n")
    with pytest.raises(ConfigError, match="there is no column 'tokens'") as error:
        build(tmp_path, ONE, name="mix.yaml", **PACKS)
    assert str(error.value.at) == str(tmp_path / "more")
    assert f"energon stats {tmp_path / 'more'} --write" in str(error.value)


def test_the_last_micro_batch_of_a_balanced_pass_is_dropped_if_it_is_small(data: Path) -> None:
    options = BALANCED | {"batch_size": 5, "repeat": False}
    sizes = [
        [len(batch["__key__"]) for batch in batches(build(data, ONE, **options, batch_drop_last=drops), None)]
        for drops in (False, True)
    ]
    assert sizes == [[5] * 16 + [4], [5] * 16]


# --------------------------------------------------------------------------------------------- traces of edited mixes


@pytest.mark.parametrize("options", PLANS.values(), ids=PLANS)
def test_traces_have_the_samples_before_and_after_an_edit_of_the_mix(options: dict[str, Any], tmp_path: Path) -> None:
    for name, first in (("texts", 0), ("more", 5000)):
        write_texts(tmp_path / name, train=(41, 30), val=(5,), first=first)
        write_tokens(tmp_path / name)
    mix = tmp_path / "mix.yaml"
    mix.write_text(HEAD + "    blend: [{weight: 1, path: texts}, {weight: 1, path: more}]\n")
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)
    loader = get_savable_loader(build(tmp_path, config, **options | {"name": "mix.yaml"}))
    made = [keys_in(batch) for batch in islice(loader, 5)]
    state = loader.save_state_rank()
    mix.write_text(HEAD + "    blend: [{weight: 9, path: texts}, {weight: 1, path: more}]\n")
    loader = get_savable_loader(build(tmp_path, config, **options | {"name": "mix.yaml"}))
    loader.restore_state_global([state], allow_mix_change=True)
    made += [keys_in(batch) for batch in islice(loader, 40)]
    (tmp_path / "state.json").write_text(json.dumps(loader.save_state_rank()))
    run = open_run(str(tmp_path / "state.json"), dataset=str(mix))
    assert [[sample.key for sample in trace_step(run, step)] for step in range(45)] == made
    totals = loader.step_totals(30)
    assert (totals["samples"], totals["tokens"]) == (len(made[30]), sum(tokens_of(number_in(key)) for key in made[30]))


@pytest.mark.parametrize("every", [1, 2])
def test_totals_after_a_restore_do_not_count_groups_that_lost_all_samples(every: int, data: Path) -> None:
    options = PACKS | {"pack_capacity": {"tokens": 45}, "encoder": SkippingMany, "batch_size": every}
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)
    loader = get_savable_loader(build(data, config, **options))
    for _ in islice(loader, 40):
        pass
    restored = get_savable_loader(build(data, config, **options))
    restored.restore_state_rank(loader.save_state_rank())
    totals = restored.step_totals(40)
    # The groups of the step are those that follow the position of its lane.
    (data / "state.json").write_text(json.dumps(loader.save_state_rank()))
    run = open_run(str(data / "state.json"))
    _, _, index = run.run.batch(40, run.lane_states[0])
    planned = [number_in(run.run.sources[0].folder.full_key(int(each))) for each in index]
    assert (totals["samples"], totals["tokens"]) == (len(planned), sum(map(tokens_of, planned)))
    assert loader.step_totals(40) != totals
    # Without hooks, the samples of earlier steps are not known.
    with pytest.raises(StateError, match="from other samples than"):
        [*trace_step(run, 40)]
