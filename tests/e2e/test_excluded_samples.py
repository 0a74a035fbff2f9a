"""Samples that were excluded before a run take no turn in it; others are passed over, so that states still restore."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from loader import WorkerConfig, get_savable_loader, get_train_dataset, get_val_dataset
from loader.dataset.packed_numbers import unpack_numbers
from loader.errors import StateError
from loader.inspect.runs.planned_run import PlannedRun, RunRequest
from tests.e2e.dataset_tree import prepare, write_shard
from tests.e2e.golden_states import CASES, EXCLUDED_LATER, VOLUMES, exclude_many, write_all
from tests.e2e.mixed_data import write_metadataset
from tests.e2e.text_dataset import TEXT, exclude
from tests.elastic_runs import Pipeline, Spread, running, sealed, through_json

ALONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
SIZES = (90, 160, 61, 240, 12, 33, 130)


def write(folder: Path, keys: list[str], *, shards: int = 3) -> Path:
    """Write and prepare a dataset of texts, each its key."""
    for number in range(shards):
        part = keys[number * len(keys) // shards : (number + 1) * len(keys) // shards]
        write_shard(folder / f"{number}.tar", {key: {"txt": key.encode()} for key in part})
    prepare(folder, split=None, files={"dataset.yaml": TEXT})
    (folder / ".nv-meta/split.yaml").write_text(yaml.safe_dump({"split_parts": {"train": ["{0..2}.tar"]}}))
    return folder


def leave_out(folder: Path, keys: list[str]) -> None:
    exclude(folder, *(f"{shard_of(folder, key)}/{key}" for key in keys))


def shard_of(folder: Path, key: str) -> str:
    number, count = int(key.partition("-")[2]), SIZES[int(key.partition("-")[0])]
    return next(f"{shard}.tar" for shard in range(3) if number < (shard + 1) * count // 3)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets as they are, with half of the samples excluded, and written without this half."""
    folder = tmp_path_factory.mktemp("pool")
    draw = random.Random(5)
    for dataset, size in enumerate(SIZES):
        keys = [f"{dataset}-{number:05d}" for number in range(size)]
        gone = {*draw.sample(keys, size // 2)}
        write(folder / f"whole-{dataset}", keys)
        leave_out(write(folder / f"excluded-{dataset}", keys), sorted(gone))
        write(folder / f"without-{dataset}", [key for key in keys if key not in gone])
    return folder


def mixes(pool: Path, number: int) -> tuple[Path, Path]:
    """Write a random mix with a dataset that excludes half, and the same with the dataset written without it."""
    draw = random.Random(number)
    datasets = draw.sample(range(len(SIZES)), draw.randint(2, 7))
    weights = [draw.choice([1, 2, 0.5, 7.3]) for _ in datasets]
    kinds = ["excluded", *("whole" for _ in datasets[1:])]
    paths = []
    for kind in ("excluded", "without"):
        kinds[0] = kind
        entries = [
            {"weight": weight, "path": f"{one}-{dataset}"}
            for one, dataset, weight in zip(kinds, datasets, weights, strict=True)
        ]
        draw_same = random.Random(number)
        draw_same.shuffle(entries)
        paths.append(pool / f"mix-{number}-{kind}.yaml")
        write_metadataset(paths[-1], {"train": {"blend": entries}})
    return paths[0], paths[1]


@pytest.mark.parametrize("number", range(20))
@pytest.mark.sampled(20)
def test_shares_are_those_of_the_dataset_written_without_the_excluded_half(pool: Path, number: int) -> None:
    counts = []
    for path in mixes(pool, number):
        run = PlannedRun(RunRequest(path=str(path), world_size=5, lanes=5))
        assert not run.skips
        found = np.concatenate([run.locate(lane, 0, 2000)[0] for lane in range(5)])
        counts.append(np.bincount(found, minlength=len(run.sources)))
    assert counts[0].tolist() == counts[1].tolist()
    assert counts[0].sum() == 10_000


def texts(path: Path, count: int | None = None, **options: Any) -> list[str]:
    dataset = get_train_dataset(path, worker_config=ALONE, batch_size=1, shuffle_buffer_size=None, **options)
    return [batch.text[0] for batch in islice(get_savable_loader(dataset), count)]


@pytest.mark.parametrize("number", range(3))
def test_samples_come_in_the_order_of_the_dataset_written_without_the_excluded_ones(pool: Path, number: int) -> None:
    with_exclusions, without = (texts(path, 600, max_samples_per_sequence=10) for path in mixes(pool, number))
    assert with_exclusions == without


@pytest.mark.parametrize("dataset", [0, 4])
def test_passes_and_lengths_are_those_of_the_samples_that_are_left(pool: Path, dataset: int) -> None:
    excluded, without = pool / f"excluded-{dataset}", pool / f"without-{dataset}"
    found, expected = (texts(path, repeat=False, max_samples_per_sequence=5) for path in (excluded, without))
    assert found == expected
    assert sorted(found) == sorted({*found})
    lengths = [
        len(get_savable_loader(get_val_dataset(path, split_part="train", worker_config=ALONE, batch_size=4)))
        for path in (excluded, without)
    ]
    assert lengths[0] == lengths[1]


def test_shares_of_samples_follow_the_samples_that_are_left(pool: Path) -> None:
    found = []
    for kind in ("excluded", "without"):
        path = pool / f"parts-{kind}.yaml"
        write_metadataset(
            path, {"train": {"blend_epochized": [{"path": f"{kind}-3"}, {"path": "whole-0", "repetitions": 2}]}}
        )
        found.append(texts(path, 700, max_samples_per_sequence=3))
    assert found[0] == found[1]


# ------------------------------------------------------------------------------------------- exclusions during a run


def keys_of(dataset: int) -> list[str]:
    return [f"{dataset}-{number:05d}" for number in range(SIZES[dataset])]


def test_a_run_keeps_the_exclusions_of_its_beginning_through_all_restores(tmp_path: Path) -> None:
    keys = keys_of(0)
    folder = write(tmp_path / "x", keys)
    first, second, third = keys[3:40:3], keys[50:60], keys[70:90:4]
    leave_out(folder, first)
    options: dict[str, Any] = {"worker_config": ALONE, "batch_size": 1, "shuffle_buffer_size": 20}

    def loader(*states: Any) -> Any:
        opened = get_savable_loader(get_train_dataset(folder, **options))
        for state in states:
            opened.restore_state_rank(state)
        return opened

    stream = [batch.text[0] for batch in islice(loader(), 400)]
    assert not {*stream} & {*first}
    run = loader()
    assert [batch.text[0] for batch in islice(run, 100)] == stream[:100]
    state = through_json(run.save_state_rank())
    # More samples are excluded, others no longer: the run passes the new ones over, and the old ones take no turn.
    for excluded in (first + second, second + third, third):
        leave_out(folder, excluded)
        position = state["lane"]["0"]["0 read"]
        run = loader(state)
        found = [batch.text[0] for batch in islice(run, 60)]
        assert found == [text for text in stream[position:] if text not in excluded][:60]
        assert run.save_state_rank()["dataset"] == state["dataset"]
        state = through_json(run.save_state_rank())
    # A new run begins with what is excluded now.
    assert {*islice((batch.text[0] for batch in loader()), 500)} == {*keys} - {*third}


def test_a_state_with_exclusions_restores_after_more_of_them_on_other_ranks_and_workers(tmp_path: Path) -> None:
    keys = keys_of(0)
    folder = write(tmp_path / "x", keys)
    leave_out(folder, keys[3:40:3])

    def build(config: WorkerConfig) -> Any:
        return get_train_dataset(folder, worker_config=config, batch_size=3, shuffle_buffer_size=20)

    pipeline = Pipeline(build=build, lanes=4, batches=16)
    with running(pipeline, Spread(2)) as run:
        while run.step() and len(run.delivered) < 8:
            pass
        states = through_json(run.states())
    expected: dict[int, bytes] = {}
    for spread in (Spread(1), Spread(4), Spread(2, workers=2)):
        leave_out(folder, keys[3:40:3] + keys[50:60])
        with running(pipeline, spread, states) as run:
            while len(run.delivered) < 24 and run.step():
                pass
        expected = expected or run.delivered
        assert all(run.delivered[number] == expected[number] for number in range(8, 30) if number in run.delivered)
        assert run.delivered.keys() >= {*range(8, 30)}


RUNS = {**EXCLUDED_LATER, "volumes": VOLUMES["volumes"], "filter": CASES["filter"]}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return datasets whose exclusions were taken back, and for each case its states and batches from before that."""
    folder = tmp_path_factory.mktemp("recorded")
    write_all(folder)
    write_metadataset(
        folder / "volumes.yaml",
        {
            "train": {
                "blend": [{"path": "texts", "weight": 2}, {"path": "more", "split_part": "val", "weight": 1}],
                "blend_weight_unit": "tokens",
            }
        },
    )
    exclude_many(folder)
    runs = {}
    for name, case in RUNS.items():
        with running(case.pipeline(folder), Spread(case.ranks)) as run:
            for _ in range(case.steps):
                run.step()
            states, delivered = through_json(run.states()), {*run.delivered}
            while run.is_unfinished() and run.step():
                pass
            runs[name] = states, {number: run.delivered[number] for number in run.delivered.keys() - delivered}
    for dataset in ("texts", "more", "crude", "lines"):
        exclude(folder / dataset)
    return folder, runs


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.sampled(14)
def test_a_run_continues_without_the_samples_of_its_beginning_that_are_no_longer_excluded(
    name: str, recorded: tuple[Path, dict[str, Any]]
) -> None:
    folder, runs = recorded
    states, left = runs[name]
    for ranks in (1, 2) if RUNS[name].known_ahead else (RUNS[name].ranks,):
        with running(RUNS[name].pipeline(folder), Spread(ranks), states) as restored:
            while not left.keys() <= restored.delivered.keys() and restored.step():
                pass
        assert {number: restored.delivered.get(number) for number in left} == left


def test_a_dataset_that_enters_a_run_later_begins_with_its_exclusions_of_that_time(tmp_path: Path) -> None:
    one, two = (write(tmp_path / name, keys_of(dataset)) for name, dataset in (("one", 0), ("two", 2)))
    mix = tmp_path / "mix.yaml"
    entries: list[dict[str, Any]] = [{"weight": 1, "path": "one", "subset": {"range": [0, 40]}}]

    def loader(state: Any = None) -> Any:
        write_metadataset(mix, {"train": {"blend": entries}})
        opened = get_savable_loader(get_train_dataset(mix, worker_config=ALONE, batch_size=1, shuffle_buffer_size=5))
        if state is not None:
            opened.restore_state_rank(state, allow_mix_change=True)
        return opened

    entries.append({"weight": 1, "path": "one", "subset": {"range": [50, 80]}})
    run = loader()
    _ = [*islice(run, 50)]
    state = through_json(run.save_state_rank())
    # The second dataset is new, and the exclusions of the first one came during the run.
    leave_out(one, keys_of(0)[5:9])
    leave_out(two, keys_of(2)[10:50])
    entries.append({"weight": 2, "path": "two"})
    run = loader(state)
    found = [batch.text[0] for batch in islice(run, 400)]
    sources = run.save_state_rank()["dataset"]
    while not isinstance(sources[-1], dict):
        sources = sources[-1]
    assert ["excluded" in source for source in sources[2:]] == [False, False, True]
    assert unpack_numbers(sources[-1]["excluded"], SIZES[2]).tolist() == [*range(10, 50)]
    assert abs(Counter(text[0] for text in found)["2"] - 200) <= 5
    # It leaves and comes back: it continues as it began.
    state = through_json(run.save_state_rank())
    new = entries.pop()
    run = loader(state)
    _ = [*islice(run, 20)]
    state = through_json(run.save_state_rank())
    leave_out(two, keys_of(2)[20:60])
    entries.append(new)
    run = loader(state)
    found = [batch.text[0] for batch in islice(run, 200)]
    assert not {*found} & {*keys_of(2)[10:60]}
    assert {text for text in found if text[0] == "2"} == {*keys_of(2)[:10], keys_of(2)[60]}


@pytest.mark.parametrize(
    "damaged", ["7:", "x", "7:AAAA", "999999:eJxj", "-1:eJxj", 5, "1:eJxjAAAAAQAB", "2:eJxjZAAAAAQAAg==", ":"]
)
def test_damaged_exclusions_of_a_state_are_refused(tmp_path: Path, damaged: Any) -> None:
    folder = write(tmp_path / "x", keys_of(4))
    leave_out(folder, keys_of(4)[:3])
    run = get_savable_loader(get_train_dataset(folder, worker_config=ALONE, batch_size=1))
    expected = [batch.text[0] for batch in islice(run, 5)]
    state = through_json(run.save_state_rank())
    inner = state["dataset"]
    while not isinstance(inner[-1], dict):
        inner = inner[-1]
    inner[-1]["excluded"] = damaged
    run = get_savable_loader(get_train_dataset(folder, worker_config=ALONE, batch_size=1))
    with pytest.raises(StateError, match="damaged"):
        run.restore_state_rank(sealed(state))
    assert [batch.text[0] for batch in islice(run, 5)] == expected  # the run is as it was
