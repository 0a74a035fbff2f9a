"""Traces and counts of runs are those of real runs: any mix, any number of ranks and workers, after any restart."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader import WorkerConfig, get_savable_loader, get_train_dataset
from loader.dataset.opening import folder_at
from loader.errors import ConfigError
from loader.format.columns.column_files import write_column
from loader.format.filters.build import build_filter_index
from loader.inspect.runs import PlannedRun, RunRequest, explain_run, open_run, steps_of_key, trace_step
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from tests.e2e.dataset_tree import caption_samples, shard_path, write_shard
from tests.e2e.text_dataset import exclude, write_texts
from tests.representative import every_value_once

CRUDE = {"dataset.yaml": "__module__: megatron.energon\n__class__: CrudeWebdataset\n"}
HEAD = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n"
MIXES = {
    "blend": "  train:\n    blend: [{weight: 3, path: a}, {weight: 1, path: b}]\n",
    "rare": "  train:\n    blend: [{weight: 1, path: a}, {weight: 0.00001, path: b}]\n",
    "repetitions": "  train:\n    blend_epochized: [{repetitions: 2, path: a}, {repetitions: 0.5, path: b}]\n",
    "subset": "  train:\n    blend: [{weight: 1, path: a, subset: {range: [25%, 75%]}}, {weight: 1, path: b}]\n",
    "filter": "  train:\n    blend: [{weight: 1, path: a, filter: odd}, {weight: 1, path: b}]\n",
    "nested": "  train:\n    blend: [{weight: 1, path: inner.yaml}, {weight: 2, path: excluded}]\n",
    "together": "  train:\n    blend:\n      - {weight: 1, path: a, shuffle_over_epochs_multiplier: 3}\n"
    "      - {weight: 1, path: b}\n",
    "schedule": "  train:\n    blend:\n      - {weight: {0: 3, 12: 1, 30: 0}, path: a}\n      - {weight: 1, path: b}\n"
    "      - {weight: {0: 0, 30: 1}, path: excluded}\n",
    "linear": "  train:\n    blend:\n      - {weight: 1, path: inner.yaml}\n"
    "      - {weight: {unit: samples, change: linear, at: {0: 0, 200: 2}}, path: excluded}\n",
}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, shards, first in (("a", 5, 0), ("b", 3, 1000), ("excluded", 3, 2000)):
        for number in range(shards):
            samples = caption_samples(first + 20 * number, 20, prefix=name)
            write_shard(shard_path(folder / name, number), {key: {"txt": one["txt"]} for key, one in samples.items()})
        plan = PreparePlan(path=str(folder / name), split=SplitRequest(ratio={"train": 1.0}), files=CRUDE)
        run_prepare(plan)
    build_filter_index(folder / "a", "odd", range(1, 100, 2))
    split = folder / "excluded/.nv-meta/split.yaml"
    excluded = "exclude: [shard_001.tar, shard_000.tar/excluded02003, shard_002.tar/excluded02047]"
    split.write_text(split.read_text().replace("exclude: []", excluded))
    (folder / "inner.yaml").write_text(HEAD + MIXES["blend"])
    for name, text in MIXES.items():
        (folder / f"{name}.yaml").write_text(HEAD + text)
    return folder


def loader_of(path: Path, *, rank: int, ranks: int, workers: int, lanes: int | None = None, **options: Any) -> Any:
    config = WorkerConfig(rank=rank, world_size=ranks, num_workers=workers, lanes=lanes, seed_offset=7)
    arguments = {"batch_size": 3, "shuffle_buffer_size": 30, "max_samples_per_sequence": 4} | options
    return get_savable_loader(get_train_dataset(str(path), worker_config=config, **arguments))


def planned(path: Path, *, ranks: int = 1, workers: int = 0, **options: Any) -> PlannedRun:
    arguments = {"batch_size": 3, "shuffle_buffer_size": 30, "max_samples_per_sequence": 4, "seed_offset": 7} | options
    return PlannedRun(RunRequest(path=str(path), world_size=ranks, num_workers=workers, **arguments))


def traced(run: PlannedRun, steps: int, rank: int) -> list[list[str]]:
    return [[one.key for one in trace_step(run, step, ranks=[rank])] for step in range(steps)]


PATHS = [*(f"{name}.yaml" for name in MIXES), "a", "excluded"]


@pytest.mark.parametrize(("path", "spread"), every_value_once(PATHS, [(2, 2), (1, 0), (3, 1)]))
def test_a_trace_is_that_of_a_real_run(datasets: Path, path: str, spread: tuple[int, int]) -> None:
    ranks, workers = spread
    run = planned(datasets / path, ranks=ranks, workers=workers)
    for rank in range(ranks):
        loader = loader_of(
            datasets / path, rank=rank, ranks=ranks, workers=workers if rank == 0 else 0, lanes=run.lanes
        )
        with loader:
            batches = iter(loader)
            expected = [next(batches)["__key__"] for _ in range(40)]
        assert traced(run, 40, rank) == expected


@pytest.mark.parametrize(
    "options", [{"shuffle_buffer_size": None}, {"max_samples_per_sequence": None}, {"batch_size": 1}]
)
def test_other_arguments_change_the_trace_as_the_run(datasets: Path, options: dict[str, Any]) -> None:
    path = datasets / "blend.yaml"
    with loader_of(path, rank=0, ranks=1, workers=0, **options) as loader:
        batches = iter(loader)
        expected = [next(batches)["__key__"] for _ in range(60)]
    assert traced(planned(path, **options), 60, 0) == expected


@pytest.mark.parametrize("path", ["blend.yaml", "excluded"])
@pytest.mark.sampled(2)
def test_a_trace_continues_over_a_restart_on_other_ranks(datasets: Path, path: str) -> None:
    """Two ranks, then one rank that continues their states: micro-batches keep their numbers."""
    loaders = [loader_of(datasets / path, rank=rank, ranks=2, workers=0) for rank in range(2)]
    found: list[list[str]] = []
    streams = [iter(loader) for loader in loaders]
    for _ in range(10):
        found += [next(stream)["__key__"] for stream in streams]
    states = [loader.save_state_rank() for loader in loaders]
    for loader in loaders:
        loader.close()
    with loader_of(datasets / path, rank=0, ranks=1, workers=2) as loader:
        loader.restore_state_global(states)
        batches = iter(loader)
        found += [next(batches)["__key__"] for _ in range(20)]
    run = planned(datasets / path, ranks=1, lanes=48)
    assert traced(run, 40, 0) == found


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.sampled(3)
def test_counts_are_those_of_the_trace(datasets: Path, path: str) -> None:
    run = planned(datasets / path, ranks=2)
    facts = explain_run(run, 60)
    used = Counter(one.dataset for step in range(60) for one in trace_step(run, step))
    by_path: Counter[str] = Counter()
    for source in facts.sources:
        by_path[source.path] += source.used
    assert by_path == used
    assert sum(used.values()) == 60 * 2 * 3


def test_shares_epochs_and_exhaustion_are_those_of_the_run(datasets: Path) -> None:
    run = planned(datasets / "blend.yaml")
    a, b = explain_run(run, 400).sources
    assert (a.samples, b.samples) == (100, 60)
    assert a.share_asked == pytest.approx(0.75)
    assert a.share_got == pytest.approx(0.75, abs=0.02)
    assert a.epochs == pytest.approx(9.0, rel=0.03)
    assert a.exhausted_at is not None
    seen: set[str] = set()
    step = 0
    while len(seen) < a.samples:
        seen |= {one.key for one in trace_step(run, step) if one.dataset == a.path}
        step += 1
    assert a.exhausted_at - 15 <= step <= a.exhausted_at + 60  # lanes use up their parts at different steps


def test_the_stretches_of_a_schedule_have_their_shares_and_steps(datasets: Path) -> None:
    run = planned(datasets / "schedule.yaml", ranks=2)
    facts = explain_run(run, 60)
    assert [one.steps for one in facts.stretches] == [(0, 12), (12, 30), (30, 60)]
    assert [one.shares_asked for one in facts.stretches] == [(0.75, 0.25, 0), (0.5, 0.5, 0), (0, 0.5, 0.5)]
    for one in facts.stretches[:2]:  # the split of the third dataset excludes samples
        steps = range(int(one.steps[0]), int(one.steps[1]))
        used = Counter(sample.dataset for step in steps for sample in trace_step(run, step))
        samples = 6 * len(steps)
        assert [round(share * samples) for share in one.shares_got] == [used[one.path] for one in facts.sources]
    assert facts.sources[0].share_asked == pytest.approx((12 * 0.75 + 18 * 0.5) / 60)
    a = explain_run(run, 400).sources[0]
    assert a.used == 108
    assert a.exhausted_at is not None
    assert 27 <= a.exhausted_at <= 28  # 54 in 12 steps, then 3 in each step
    assert not explain_run(planned(datasets / "blend.yaml"), 60).stretches


@pytest.mark.parametrize(("steps", "last"), [(5, 400), (10, 60), (20, 100)])
def test_the_stretches_of_a_short_run_are_its_samples(datasets: Path, tmp_path: Path, steps: int, last: int) -> None:
    linear = f"{{unit: samples, change: linear, at: {{0: 3.0, {last}: 1.0}}}}"
    mix = tmp_path / "short.yaml"
    head = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
    entries = f"    - {{path: {datasets / 'a'}, weight: {linear}}}\n    - {{path: {datasets / 'b'}}}\n"
    mix.write_text(head + entries)
    run = planned(mix, ranks=7)
    facts = explain_run(run, steps)
    assert all(used >= 0 for one in facts.stretches for used in one.used)
    used = Counter(sample.dataset for step in range(steps) for sample in trace_step(run, step))
    columns = zip(*(one.used for one in facts.stretches), strict=True)
    assert [sum(column) for column in columns] == [used[one.path] for one in facts.sources]


def test_the_stretches_of_a_run_that_is_not_shuffled_are_exact(datasets: Path) -> None:
    options: dict[str, Any] = {"shuffle_buffer_size": None, "shuffle_over_epochs_multiplier": None}
    run = planned(datasets / "schedule.yaml", batch_size=5, **options)
    facts = explain_run(run, 40)
    used = Counter(sample.dataset for step in range(12) for sample in trace_step(run, step))
    assert [round(share * 60) for share in facts.stretches[0].shares_got] == [used[one.path] for one in facts.sources]
    assert facts.stretches[0].shares_got == (0.75, 0.25, 0)


def test_a_trace_of_a_schedule_counts_steps_of_the_ranks_at_the_beginning(datasets: Path, tmp_path: Path) -> None:
    path = datasets / "schedule.yaml"
    loaders = [loader_of(path, rank=rank, ranks=2, workers=0, lanes=4) for rank in range(2)]
    streams = [iter(loader) for loader in loaders]
    made = [[next(stream)["__key__"] for stream in streams] for _ in range(10)]
    states = [loader.save_state_rank() for loader in loaders]
    one = loader_of(path, rank=0, ranks=1, workers=0)
    one.restore_state_global(states)
    stream = iter(one)
    made += [[next(stream)["__key__"]] for _ in range(60)]
    (tmp_path / "state.json").write_text(json.dumps(one.save_state_rank()))
    run = open_run(str(tmp_path / "state.json"), dataset=str(path))
    for step, batches in enumerate(made):
        found = [[sample.key for sample in trace_step(run, step, ranks=[rank])] for rank in range(len(batches))]
        assert found == batches, f"step {step}"
    # Steps 12 and 30 of two ranks are steps 14 and 50 of this run.
    of_a = [any(key.partition("/")[2].startswith("a") for keys in batches for key in keys) for batches in made]
    assert any(of_a[47:50])
    assert not any(of_a[50:])


def test_the_steps_of_a_key_are_those_whose_trace_has_it(datasets: Path) -> None:
    for path in ("blend.yaml", "excluded"):
        run = planned(datasets / path, ranks=2)
        every = [one for step in range(50) for one in trace_step(run, step)]
        for key in sorted({one.key for one in every[:10]}):
            found = sorted((one.step, one.rank, one.position) for one in steps_of_key(run, key, steps=50))
            assert found == [(one.step, one.rank, one.position) for one in every if one.key == key]
    with pytest.raises(ConfigError, match="there is no sample 'nothing'"):
        list(steps_of_key(planned(datasets / "a"), "nothing", steps=5))


def test_findings_name_what_is_wrong(datasets: Path) -> None:
    twice = datasets / "twice.yaml"
    twice.write_text(HEAD + "  train:\n    blend: [{weight: 1, path: a}, {weight: 1, path: a}]\n")
    kinds = {finding.kind for finding in explain_run(planned(twice), 10).findings}
    assert "repeated leaf" in kinds
    rare = explain_run(planned(datasets / "rare.yaml"), 1).findings
    assert any(finding.kind == "never reached" and "/b " in finding.message for finding in rare)
    many = explain_run(planned(datasets / "blend.yaml"), 4000).findings
    assert sum(finding.kind == "many epochs" for finding in many) == 2
    few = explain_run(planned(datasets / "a", ranks=8, lanes=144), 10).findings
    assert any(finding.kind == "few samples" for finding in few)


def test_excluded_samples_and_those_of_other_parts_and_subsets_count_for_nothing(tmp_path: Path) -> None:
    write_texts(tmp_path / "texts", train=(40, 0, 30, 30), val=(20,))
    exclude(tmp_path / "texts", "train_0.tar/00003", "train_3.tar", "val_0.tar", "train_2.tar/00041")
    build_filter_index(tmp_path / "texts", "even", range(0, 120, 2))
    run = planned(tmp_path / "texts", lanes=1)
    (whole,) = explain_run(run, 23).sources
    assert (whole.samples, whole.excluded, whole.shards, whole.used) == (100, 32, 2, 69)
    assert whole.epochs == pytest.approx(69 / 68)
    assert whole.exhausted_at == 23
    assert len({one.key for step in range(23) for one in trace_step(run, step)}) == 68
    (even,) = explain_run(planned(tmp_path / "texts", lanes=1, filter_name="even"), 10).sources
    assert (even.samples, even.excluded, even.shards) == (50, 15, 2)
    (tmp_path / "mix.yaml").write_text(
        HEAD + "  train:\n    blend:\n      - {weight: 1, path: texts, subset: {range: [0, 41]}}\n"
        "      - {weight: 1, path: texts, subset: {range: [30, 50]}}\n"
    )
    facts = explain_run(planned(tmp_path / "mix.yaml", lanes=1), 30)
    assert [(one.samples, one.excluded, one.shards) for one in facts.sources] == [(41, 1, 2), (20, 1, 2)]
    assert facts.storages[0].files == 2  # both subsets read the same shards


def test_mixing_tells_a_shuffled_order_from_the_stored_one(datasets: Path) -> None:
    shuffled = explain_run(planned(datasets / "a", shuffle_buffer_size=1000, max_samples_per_sequence=1), 10)
    stored = explain_run(
        planned(
            datasets / "a",
            shuffle_buffer_size=None,
            max_samples_per_sequence=None,
            shuffle_over_epochs_multiplier=None,
            lanes=1,
            batch_size=10,
        ),
        10,
    )
    assert shuffled.mixing == pytest.approx(1.0, abs=0.25)
    assert shuffled.shard_share == pytest.approx(shuffled.random_shard_share, abs=0.1)
    assert stored.shard_share > 2 * stored.random_shard_share > 0.5
    assert "a shard has 100.0 % of a micro-batch, where 37.0 % is random" in stored.findings[0].message
    assert stored.mixing < 0.2
    assert [finding.kind for finding in stored.findings] == ["poor shuffle"]


def test_wrong_steps_and_ranks_are_refused(datasets: Path) -> None:
    run = planned(datasets / "a")
    with pytest.raises(ConfigError, match="expected a rank in"):
        list(trace_step(run, 0, ranks=[1]))
    with pytest.raises(ConfigError, match="expected a step of at least 0"):
        list(trace_step(run, -1))
    with pytest.raises(ConfigError, match="expected a batch_size of at least 1"):
        planned(datasets / "a", batch_size=0)


def test_amounts_are_sums_of_columns_over_the_samples_of_the_run(datasets: Path, tmp_path: Path) -> None:
    for name, tokens in (("one", 10), ("two", 300)):
        write_shard(shard_path(tmp_path / name, 0), {f"{key:03}": {"txt": b"text"} for key in range(40)})
        run_prepare(
            PreparePlan(path=str(tmp_path / name), split=SplitRequest(ratio={"train": 0.5, "val": 0.5}), files=CRUDE)
        )
        folder = folder_at(tmp_path / name)
        values = np.full(40, tokens)
        values[::4] = -1  # samples without a value
        write_column(folder.storage, folder.index, "tokens", values, missing=-1)
    (tmp_path / "mix.yaml").write_text(
        HEAD + "  train:\n    blend: [{weight: 1, path: one}, {weight: 3, path: two}, {weight: 4, path: three}]\n"
    )
    shutil.copytree(datasets / "a", tmp_path / "three")
    one, two, three = explain_run(planned(tmp_path / "mix.yaml"), 500).sources
    assert one.amounts == {"tokens": pytest.approx(10 * one.used)}
    assert two.amounts == {"tokens": pytest.approx(300 * two.used)}
    assert three.amounts == {}


def test_reads_of_a_run_are_counted_by_storage(datasets: Path, tmp_path: Path) -> None:
    run = planned(datasets / "blend.yaml", ranks=2)
    facts = explain_run(run, 100)
    (local,) = facts.storages
    assert (local.storage, local.files) == ("local", 8)
    assert local.bytes == sum(source.bytes_read for source in facts.sources)
    assert 0 < local.requests <= facts.samples
    assert (facts.read_ahead_bytes, facts.cache_bytes) == (0, 0)
    write_shard(shard_path(tmp_path, 0), {f"{key:03}": {"txt": b"text"} for key in range(900)})
    run_prepare(PreparePlan(path=str(tmp_path), split=SplitRequest(ratio={"train": 1.0}), files=CRUDE))
    stored = planned(tmp_path, shuffle_over_epochs_multiplier=None, shuffle_buffer_size=None, lanes=1)
    (in_order,) = explain_run(stored, 1000).storages
    assert in_order.requests < 3000 / 10  # neighbours are read together


def test_memory_is_that_of_the_batches_and_buffers_of_a_rank(datasets: Path) -> None:
    run = planned(datasets / "blend.yaml", ranks=2, workers=3)
    sample_bytes = max(source.folder.sample_bytes for source in run.sources)
    plain = explain_run(run, 10)
    assert plain.queue_bytes == 3 * 2 * 3 * sample_bytes
    assert plain.buffer_bytes == 0
    packing = explain_run(planned(datasets / "blend.yaml", ranks=2, workers=3, packing_buffer_size=50), 10)
    assert packing.lanes == 6  # a run that packs has a lane for each worker
    assert packing.buffer_bytes == 3 * 50 * sample_bytes


def test_workers_without_a_lane_and_starved_splits_are_findings(datasets: Path) -> None:
    assert not [one for one in explain_run(planned(datasets / "a", workers=48), 10).findings if "idle" in one.kind]
    (idle,) = (one for one in explain_run(planned(datasets / "a", workers=49), 10).findings if "idle" in one.kind)
    assert "49 workers for 48 lanes" in idle.message

    def starved(batch_size: int) -> list[str]:
        run = planned(datasets / "blend.yaml", batch_size=batch_size)
        return [one.message for one in explain_run(run, 20).findings if one.kind == "starved split"]

    assert starved(120) == []
    (message,) = starved(180)  # of which 135 are of the 100 samples of a, and 45 of the 60 samples of b
    assert "split part 'train'" in message
    assert f"{datasets / 'a'} has 100 samples" in message


def test_plans_and_traces_of_runs_do_not_import_torch(datasets: Path) -> None:
    code = """
import sys
from energon_cli.main import main
path = sys.argv[1]
for command in (["explain", path, "--json"], ["trace", path, "--step", "7"], ["trace", path, "--key", "b01000"]):
    main(command)
print("torch" in sys.modules)
"""
    command = [sys.executable, "-c", code, str(datasets / "nested.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "step 7  rank 0" in done.stdout
    assert done.stdout.endswith("False\n")


@pytest.mark.parametrize("path", ["blend.yaml", "filter.yaml", "nested.yaml", "excluded"])
def test_a_checkpoint_and_its_data_give_the_samples_of_each_step(datasets: Path, tmp_path: Path, path: str) -> None:
    loader = loader_of(datasets / path, rank=0, ranks=1, workers=0)
    stream = iter(loader)
    made = [next(stream)["__key__"] for _ in range(40)]
    (tmp_path / "state.json").write_text(json.dumps(loader.save_state_rank()))
    made += [next(stream)["__key__"] for _ in range(40)]
    mix = str(datasets / path) if path.endswith(".yaml") else None
    run = open_run(str(tmp_path / "state.json"), dataset=mix)
    assert run.steps == 40
    for step, expected in enumerate(made):
        assert [one.key for one in trace_step(run, step)] == expected
    if mix is not None:
        with pytest.raises(ConfigError, match="its state does not name the metadataset"):
            open_run(str(tmp_path / "state.json"))
