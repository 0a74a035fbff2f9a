"""What works with planned runs as with others, and what is refused with its reason."""

from __future__ import annotations

import os
import signal
from collections import Counter
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loader import (
    WorkerConfig,
    build_filter_index,
    get_savable_loader,
    get_val_dataset,
    get_val_datasets,
    stateless,
)
from loader.metadataset.joins.prepare_metadataset import prepare_metadataset
from loader.testing.stage import check_resumes
from tests.e2e.test_planned_runs import BALANCED, FILLED, PACKS, Tokens, batches, build, keys_in, write_tokens
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
    return Counter(int(key.rpartition("/")[2]) for batch in some for key in keys_in(batch))


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
    planned = {"plan_window": 24, "task_encoder": Padded()} | options
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
