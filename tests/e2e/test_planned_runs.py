"""Runs whose packs and micro-batches are planned: costs, exact continuation on other ranks, holes and bad input."""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from loader import TaskEncoder, TextSample, WorkerConfig, get_savable_loader, get_train_dataset, stateless
from loader.dataset.opening import folder_at
from loader.errors import ConfigError, SkipSample, StateError
from loader.format.columns.column_files import write_column
from loader.inspect.runs import open_run, steps_of_key, trace_step
from loader.packing import PACKERS
from tests.e2e.drawing_encoders import Yielding
from tests.e2e.text_dataset import exclude, write_texts
from tests.elastic_runs import Pipeline, Spread, check_every_save, running, through_json, uninterrupted

PACKS: dict[str, Any] = {"packing": "best_fit", "pack_capacity": {"tokens": 100}, "batch_size": None}
BALANCED: dict[str, Any] = {"balance": "tokens", "batch_size": 4}
FILLED: dict[str, Any] = {"batch_cost": {"tokens": 150}}
MIX = """\
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train:
    blend: [{weight: 2, path: texts}, {weight: 1, path: more}]
"""


def tokens_of(number: int) -> int:
    return 3 + number * number % 40


def write_tokens(folder: Path, *, missing: int = 0) -> None:
    dataset = folder_at(folder)
    values = np.array([tokens_of(int(dataset.index.full_key(n).rpartition("/")[2])) for n in range(len(dataset))])
    values[:missing] = -1
    write_column(dataset.storage, dataset.index, "tokens", values, missing=-1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planned")
    write_texts(folder / "texts")
    write_texts(folder / "more", train=(9, 31), val=(5,), first=5000)
    for name in ("texts", "more"):
        write_tokens(folder / name)
    (folder / "mix.yaml").write_text(MIX)
    return folder


class Tokens(TaskEncoder[Any, Any, Any, Any]):
    """Each sample has as many tokens as its column says."""

    @stateless
    def encode_sample(self, sample: TextSample) -> Any:
        number = int(sample.text.split()[1])
        return {
            "__key__": sample.__key__,
            "__restore_key__": sample.__restore_key__,
            "tokens": torch.full((tokens_of(number),), number),
        }


class Skipping(Tokens):
    def encode_sample(self, sample: TextSample) -> Any:
        if int(sample.text.split()[1]) % 7 == 0:
            raise SkipSample
        return super().encode_sample(sample)


def build(data: Path, config: WorkerConfig, *, name: str = "texts", encoder: Any = Tokens, **options: Any) -> Any:
    defaults = {"shuffle_buffer_size": 20, "max_samples_per_sequence": 5, "plan_window": 24}
    return get_train_dataset(data / name, worker_config=config, task_encoder=encoder(), **defaults | options)


def batches(dataset: Any, count: int | None) -> list[Any]:
    loader = get_savable_loader(dataset)
    return [batch for batch, _ in zip(loader, range(count or 10**6), strict=False)]


CASES: dict[str, tuple[dict[str, Any], int | None]] = {
    "packs": (PACKS, 36),
    "packs of a blend": (PACKS | {"name": "mix.yaml"}, 36),
    "packs with skipped samples": (PACKS | {"encoder": Skipping}, 36),
    "micro-batches of two packs": (PACKS | {"batch_size": 2}, 24),
    "balanced": (BALANCED, 36),
    "balanced blend": (BALANCED | {"name": "mix.yaml"}, 36),
    "balanced with skipped samples": (BALANCED | {"encoder": Skipping}, 36),
    "balanced by two costs": (BALANCED | {"balance": ["tokens", "tokens * tokens // 9"]}, 36),
    "filled to a budget": (FILLED, 36),
    "balanced, drawn with replacement": (BALANCED | {"shuffle_over_epochs_multiplier": -1}, 36),
    "packs without shuffling": (PACKS | {"shuffle_over_epochs_multiplier": None}, 36),
    "one pass, balanced": (BALANCED | {"repeat": False}, None),
    "one pass of packs": (PACKS | {"repeat": False}, None),
    "virtual epochs of packs": (PACKS | {"virtual_epoch_length": 4}, 36),
}


@pytest.mark.parametrize(
    ("name", "every"),
    [*((name, 7) for name in CASES), *(pytest.param(name, 1, marks=pytest.mark.slow) for name in CASES)],
)
@pytest.mark.sampled(2)
def test_a_planned_run_saved_at_any_step_continues_on_other_ranks(name: str, every: int, data: Path) -> None:
    options, count = CASES[name]
    known_ahead = name != "one pass of packs"
    pipeline = Pipeline(build=partial(build, data, **options), batches=count, lanes=12, known_ahead=known_ahead)
    saved_by = Spread(2)
    if known_ahead:
        check_every_save(pipeline, saved_by, every=every)
    else:  # each lane ends after its own number of packs
        check_every_save(pipeline, saved_by, [saved_by], reference=uninterrupted(pipeline, saved_by), every=every)


def test_packs_keep_the_capacity_and_have_their_offsets(data: Path) -> None:
    packs = batches(build(data, WorkerConfig(rank=0, world_size=1, num_workers=0), **PACKS, repeat=False), None)
    keys = [key for pack in packs for key in pack["__key__"]]
    assert len(keys) == len(set(keys)) == 157
    for pack in packs:
        offsets = pack["cu_seqlens"].tolist()
        assert pack["cu_seqlens"].dtype == torch.int32
        assert offsets[0] == 0
        assert offsets[-1] == len(pack["tokens"]) == len(pack["position_ids"]) <= 100
        for start, stop in pairwise(offsets):
            assert len(set(pack["tokens"][start:stop].tolist())) == 1
            assert pack["position_ids"][start:stop].tolist() == [*range(stop - start)]


def test_attributes_of_the_task_encoder_stand_for_arguments(data: Path) -> None:
    class Packed(Tokens):
        packing = "first_fit_decreasing"
        pack_capacity = {"tokens": 100}

    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    dataset = build(data, config, encoder=Packed, batch_size=None)
    assert "first_fit_decreasing" in str(dataset)
    assert max(len(pack["tokens"]) for pack in batches(dataset, 20)) <= 100


def test_balanced_steps_cost_less_at_most_than_random_ones(data: Path) -> None:
    ratios = []
    for options in (BALANCED, {"batch_size": 4, "plan_window": None}):
        sums = []
        for rank in range(4):
            dataset = build(data, WorkerConfig(rank=rank, world_size=4, num_workers=0, lanes=4), **options)
            sums.append([int((batch["tokens"] > -1).sum()) for batch in costs(dataset, 30)])
        steps = np.array(sums)
        ratios.append(float((steps.max(axis=0) / steps.mean(axis=0)).mean()))
    assert ratios[0] < 1.25 < ratios[1]


def costs(dataset: Any, count: int) -> list[Any]:
    """Return micro-batches, with the numbers of tokens of their samples instead of padded tokens."""
    return [
        {"tokens": torch.cat([row[: tokens_of(int(row[0]))] for row in batch["tokens"]])}
        for batch in batches(dataset, count)
    ]


# ------------------------------------------------------------------------------------------------------- bad input


def test_a_sample_above_the_capacity_is_named(data: Path) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    small = PACKS | {"pack_capacity": {"tokens": np.int64(30)}}
    named = r"\d+ of 157 samples above the capacity of a pack, tokens 30: 'train_"
    with pytest.raises(ConfigError, match=named) as error:
        build(data, config, **small)
    assert 'oversized="skip"' in str(error.value)
    with pytest.raises(ConfigError, match="samples above the capacity of a pack, tokens 9"):
        build(data, config, **PACKS | {"pack_capacity": {"tokens": 9}}, oversized="alone")
    skipped, alone = (
        batches(build(data, config, **small, oversized=oversized, repeat=False), None)
        for oversized in ("skip", "alone")
    )
    assert max(len(pack["tokens"]) for pack in skipped) <= 30
    assert sum(len(pack["__key__"]) for pack in alone) == 157 > sum(len(pack["__key__"]) for pack in skipped) > 90
    assert all(len(pack["__key__"]) == 1 for pack in alone if len(pack["tokens"]) > 30)


def test_arguments_that_contradict_each_other_are_refused(data: Path) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        (PACKS | BALANCED, "balance, packing and batch_cost exclude each other"),
        ({"packing": "best_fit"}, "expected pack_capacity to name the capacity of each cost, found None"),
        ({"packing": "knapsack", "pack_capacity": {"tokens": 9}}, "there is no packer 'knapsack'"),
        ({"packing": "best_fit", "pack_capacity": {"tokens": 0}}, "expected a capacity above 0 of 'tokens', found 0"),
        ({"pack_capacity": {"tokens": 9}, "plan_window": None}, "pack_capacity has no effect without"),
        ({"plan_window": 0}, "expected plan_window of at least 1 sample, or None, found 0"),
        (BALANCED | {"pack_capacity": {"tokens": 9}}, "pack_capacity has no effect without packing"),
        (BALANCED | {"oversized": "skip"}, "oversized has no effect with balance"),
        (FILLED | {"pack_capacity": {"tokens": 9}}, "pack_capacity has no effect without packing"),
        (FILLED | {"batch_size": 4}, "batch_size=4 has no effect with batch_cost"),
        (PACKS | {"packing": ["best_fit"]}, r"expected packing to be the name of a packer, found \['best_fit'\]"),
        (PACKS | {"pack_capacity": {"tokens": True}}, "expected a capacity above 0 of 'tokens', found True"),
        ({"balance": 3}, "expected balance to be a column or a formula over columns, or several, found 3"),
        ({"balance": [["a"]]}, r"or several, found \[\['a'\]\]"),
        ({"balance": {3: "tokens"}}, "or several, found {3: 'tokens'}"),
        ({"balance": "words"}, "words"),
        ({"balance": "tokens +"}, "invalid condition"),
        (PACKS | {"oversized": "cut"}, "expected oversized to be"),
        (BALANCED | {"encoder": Yielding}, "makes several samples of one"),
    )
    for options, message in cases:
        with pytest.raises(ConfigError, match=message):
            build(data, config, **options)


def test_missing_costs_are_means_and_negative_ones_are_refused(tmp_path: Path) -> None:
    write_texts(tmp_path / "texts")
    write_tokens(tmp_path / "texts", missing=40)
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    with pytest.warns(UserWarning, match=r"of 157 samples \(\d+\.\d+%\) without a cost 'tokens'"):
        keys = [
            key
            for batch in batches(build(tmp_path, config, **BALANCED, repeat=False), None)
            for key in batch["__key__"]
        ]
    assert len(keys) == len(set(keys)) == 157
    with pytest.raises(ConfigError, match=r"expected costs of at least 0, found tokens - 20 -\d+ of 'train_"):
        build(tmp_path, config, **BALANCED | {"balance": "tokens - 20"})


def test_a_column_that_was_written_again_is_refused_by_a_saved_run(tmp_path: Path) -> None:
    write_texts(tmp_path / "texts")
    write_tokens(tmp_path / "texts")
    pipeline = Pipeline(build=partial(build, tmp_path, **PACKS), lanes=4)
    with running(pipeline, Spread(2)) as run:
        for _ in range(3):
            run.step()
        states = through_json(run.states())
    dataset = folder_at(tmp_path / "texts")
    write_column(dataset.storage, dataset.index, "tokens", np.full(len(dataset), 7))
    with pytest.raises(StateError, match=r"the costs of .* have changed since"), running(pipeline, Spread(2), states):
        pass
    # If new costs are allowed, all lanes continue with their next windows.
    again = Pipeline(build=partial(build, tmp_path, **PACKS, allow_new_costs=True), lanes=4)
    with running(again, Spread(1)) as run:
        positions = {lane: state["0 read"] for saved in states for lane, state in saved["lane"].items()}
        run.loaders[0].restore_state_global(states)
        after = run.states()[0]["lane"]
        assert {lane: state["0 read"] for lane, state in after.items()} == {
            lane: -(-position // 24) * 24 for lane, position in positions.items()
        }
        assert max(len(pack["__key__"]) for pack, _ in zip(run.loaders[0], range(8), strict=False)) == 100 // 7


def test_a_state_is_refused_by_micro_batches_of_another_size(data: Path) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    loader = get_savable_loader(build(data, config, **BALANCED))
    next(iter(loader))
    with pytest.raises(StateError, match="batch_size 4 → 2"):
        get_savable_loader(build(data, config, **BALANCED | {"batch_size": 2})).restore_state_rank(
            loader.save_state_rank()
        )


def test_samples_excluded_after_the_start_are_holes_of_their_packs(tmp_path: Path) -> None:
    write_texts(tmp_path / "texts")
    write_tokens(tmp_path / "texts")
    pipeline = Pipeline(build=partial(build, tmp_path, **PACKS), batches=36, lanes=4)
    with running(pipeline, Spread(2)) as run:
        for _ in range(2):
            run.step()
        states = through_json(run.states())

    def packs() -> list[list[str]]:
        with running(pipeline, Spread(1), states) as restored:
            return [pack["__key__"] for pack, _ in zip(restored.loaders[0], range(20), strict=False)]

    before = packs()
    left_out = before[3][0], before[10][-1]
    exclude(tmp_path / "texts", *left_out)
    assert packs() == [[key for key in pack if key not in left_out] for pack in before]


# --------------------------------------------------------------------------------------------- edits, replays, skips


def keys_of_run(pipeline: Pipeline, spread: Spread, states: Any, *, steps: int, allow: bool = False) -> list[str]:
    """Return the keys of the samples of some steps of all ranks, lane by lane and step by step."""
    keys = []
    with running(pipeline, spread) as run:
        for loader in run.loaders:
            loader.restore_state_global(states, allow_mix_change=allow)
        iterators = [iter(loader) for loader in run.loaders]
        for _ in range(steps):
            keys += [key for iterator in iterators for key in next(iterator)["__key__"]]
    return keys


def test_a_window_that_has_begun_keeps_its_mix_and_the_next_one_has_the_new_mix(tmp_path: Path) -> None:
    for name, first in (("texts", 0), ("more", 5000)):
        write_texts(tmp_path / name, train=(41, 30), val=(5,), first=first)
        write_tokens(tmp_path / name)
    mix = tmp_path / "mix.yaml"
    mix.write_text(MIX)
    pipeline = Pipeline(build=partial(build, tmp_path, **BALANCED | {"name": "mix.yaml"}), lanes=2)
    with running(pipeline, Spread(1)) as run:
        for _ in range(4):
            run.step()
        states = through_json(run.states())
    before = keys_of_run(pipeline, Spread(1), states, steps=40)
    # With another weight, the rest of the windows is the same: 4 of 6 micro-batches of each lane.
    mix.write_text(MIX.replace("weight: 1", "weight: 20"))
    with pytest.raises(StateError, match="the mix of datasets has changed"):
        keys_of_run(pipeline, Spread(1), states, steps=1)
    after = keys_of_run(pipeline, Spread(1), states, steps=40, allow=True)
    assert after[: 8 * 4] == before[: 8 * 4]
    assert after != before
    share = [sum(int(key.rpartition("/")[2]) >= 5000 for key in keys[8 * 4 :]) for keys in (before, after)]
    assert share[1] > 2 * share[0]
    # A dataset whose samples wait in a window cannot leave.
    mix.write_text(MIX.replace(", {weight: 1, path: more}", ""))
    with pytest.raises(StateError, match="keep it with a small weight"):
        keys_of_run(pipeline, Spread(1), states, steps=1, allow=True)


@pytest.mark.parametrize("options", [PACKS, BALANCED, FILLED], ids=["packs", "balanced", "filled"])
def test_steps_are_replayed_and_skipped(options: dict[str, Any], data: Path) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4)
    given = [batch["__key__"] for batch in batches(build(data, config, **options), 30)]
    loader = get_savable_loader(build(data, config, **options))
    for step in (17, 3, 29):
        assert loader.replay(step)["__key__"] == given[step]
    skipping = get_savable_loader(build(data, config, **options), skip_steps=[(5, 9), (20, 21)])
    kept = [batch["__key__"] for batch, _ in zip(skipping, range(25), strict=False)]
    assert kept == [keys for step, keys in enumerate(given) if not (5 <= step < 9 or step == 20)]


SMALL: dict[str, Any] = PACKS | {"pack_capacity": {"tokens": 30}, "oversized": "skip"}


@pytest.mark.parametrize(
    "options", [PACKS | {"batch_size": 2}, SMALL, BALANCED, FILLED], ids=["packs", "small packs", "balanced", "filled"]
)
def test_totals_of_steps_are_those_of_all_ranks(options: dict[str, Any], data: Path) -> None:
    loaders = [
        get_savable_loader(build(data, WorkerConfig(rank=rank, world_size=3, num_workers=0, lanes=12), **options))
        for rank in range(3)
    ]
    totals = []
    for _, *parts in zip(range(25), *loaders, strict=False):
        keys = [
            key for part in parts for keys in part["__key__"] for key in ([keys] if isinstance(keys, str) else keys)
        ]
        totals.append((len(keys), sum(tokens_of(int(key.rpartition("/")[2])) for key in keys)))
    for step in (0, 7, 24, 3):
        planned = loaders[step % 3].step_totals(step)
        assert (planned["samples"], planned[next(name for name in planned if name != "samples")]) == totals[step]
    summed = loaders[0].step_totals(4, accumulate=3)
    assert summed["samples"] == sum(samples for samples, _ in totals[4:7])
    plain = get_savable_loader(build(data, WorkerConfig(rank=0, world_size=1, num_workers=0), plan_window=None))
    with pytest.raises(ConfigError, match="expected a dataset whose micro-batches or packs are planned"):
        plain.step_totals(0)


# ------------------------------------------------------------------------------------------------------------ traces


def keys_in(batch: Any) -> list[str]:
    """Return the keys of the samples of a micro-batch, of packs too."""
    return [key for keys in batch["__key__"] for key in ([keys] if isinstance(keys, str) else keys)]


TRACED: dict[str, dict[str, Any]] = {
    "packs": PACKS,
    "micro-batches of two packs": PACKS | {"batch_size": 2, "name": "mix.yaml"},
    "packs without large samples": SMALL,
    "balanced": BALANCED,
    "balanced by a formula": BALANCED | {"balance": {"work": "tokens * tokens"}, "padded": True},
    "balanced by two costs": BALANCED | {"balance": {"all": "tokens", "most": "min(tokens, 30)"}},
    "filled": FILLED,
    "filled with padding": FILLED | {"padded": True},
}


@pytest.mark.parametrize("name", TRACED)
def test_a_checkpoint_and_a_log_have_the_samples_of_planned_steps(name: str, data: Path, tmp_path: Path) -> None:
    options = TRACED[name]
    configs = [WorkerConfig(rank=rank, world_size=2, num_workers=0, lanes=4) for rank in range(2)]
    loaders = [get_savable_loader(build(data, config, **options), trace_dir=tmp_path / "log") for config in configs]
    steps = [[keys_in(batch) for batch in batches] for _, *batches in zip(range(15), *loaders, strict=False)]
    (tmp_path / "run").mkdir()
    for rank, loader in enumerate(loaders):
        (tmp_path / f"run/rank{rank}.json").write_text(json.dumps(loader.save_state_rank()))
    later = [[keys_in(batch) for batch in batches] for _, *batches in zip(range(15), *loaders, strict=False)]
    dataset = str(data / options.get("name", "texts"))
    runs = [
        open_run(str(tmp_path / "run"), dataset=dataset),
        open_run(str(tmp_path / "run"), dataset=dataset, task_encoder=Tokens()),
        open_run(str(tmp_path / "log"), dataset=dataset),
    ]
    for step in (14, 0, 7, 29):
        for run in runs:
            traced = [*trace_step(run, step)]
            keys = [[sample.key for sample in traced if sample.rank == rank] for rank in range(2)]
            assert keys == (steps + later)[step], step
    assert keys_in(runs[1].replay(9)[0]) == steps[4][1]
    # Each use of a sample is found, too.
    key = steps[11][0][0]
    uses = [(step, rank) for step, ranks in enumerate(steps) for rank, keys in enumerate(ranks) if key in keys]
    for run in runs[0], runs[2]:
        assert sorted((use.step, use.rank) for use in steps_of_key(run, key, steps=15)) == uses


def test_samples_excluded_since_are_holes_of_traced_groups(tmp_path: Path) -> None:
    write_texts(tmp_path / "texts")
    write_tokens(tmp_path / "texts")
    loader = get_savable_loader(build(tmp_path, WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2), **PACKS))
    steps = [pack["__key__"] for pack, _ in zip(loader, range(10), strict=False)]
    (tmp_path / "state.json").write_text(json.dumps(loader.save_state_rank()))
    exclude(tmp_path / "texts", steps[3][0])
    run = open_run(str(tmp_path / "state.json"))
    traced = [[sample.key for sample in trace_step(run, step)] for step in range(10)]
    assert traced == [[key for key in keys if key != steps[3][0]] for keys in steps]


# ------------------------------------------------------------------------------------------------------ random runs


def random_pipeline(data: Path, random: Random) -> Pipeline:
    """Return a run with a plan, data, shuffling and skipped steps that are drawn at random."""
    capacity = random.choice([80, 100, 250])
    plan: dict[str, Any] = random.choice(
        [
            {"balance": "tokens", "batch_size": random.randint(1, 6), "padded": random.random() < 0.3},
            {"balance": ["tokens", "ceil(sqrt(tokens))"], "batch_size": random.randint(2, 5)},
            {"packing": random.choice([*PACKERS]), "pack_capacity": {"tokens": capacity}, "batch_size": None},
            {"packing": "best_fit", "pack_capacity": {"tokens": capacity, "tokens // 4": 20}, "batch_size": 2},
            {"batch_cost": {"tokens": capacity}, "padded": random.random() < 0.5},
        ]
    )
    options: dict[str, Any] = {
        "name": random.choice(["texts", "mix.yaml"]),
        "encoder": random.choice([Tokens, Tokens, Skipping]),
        "plan_window": random.choice([7, 24, 64, 500]),
        "shuffle_buffer_size": random.choice([0, 20, 1000]),
        "max_samples_per_sequence": random.choice([1, 5, None]),
    }
    start = random.randint(3, 9)
    return Pipeline(
        build=partial(build, data, **options | plan),
        batches=48,
        lanes=24,
        seed=random.randint(0, 99),
        skip_steps=[(start, start + random.randint(1, 3))] if random.random() < 0.5 else (),
    )


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=() if seed < 4 else pytest.mark.slow) for seed in range(60)])
def test_a_random_run_is_the_same_on_any_ranks(seed: int, data: Path) -> None:
    random = Random(seed)
    pipeline = random_pipeline(data, random)
    # Steps to skip are counted on the ranks that a run has there, so such runs are compared on the same ranks.
    ranks = 1 if pipeline.skip_steps else random.choice([1, 2, 3, 4, 6, 8])
    expected = uninterrupted(pipeline, Spread(ranks))
    delivered: dict[int, bytes] = {}
    states, spread = None, Spread(ranks)
    # Continue on other ranks, after some steps on each.
    while len(delivered) < len(expected):
        with running(pipeline, spread, states) as run:
            for _ in range(random.randint(1, 8)):
                if len(delivered) + len(run.delivered) < len(expected):
                    run.step()
            states = through_json(run.states())
            delivered |= run.delivered
        if not pipeline.skip_steps or max(delivered, default=0) > pipeline.skip_steps[0][1]:
            spread = Spread(random.choice([1, 2, 3, 4, 6, 8]), random.choice([0, 0, 0, 1]))
    common = expected.keys() & delivered.keys()
    assert {number: delivered[number] for number in common} == {number: expected[number] for number in common}
    assert len(common) >= len(expected) - 8
