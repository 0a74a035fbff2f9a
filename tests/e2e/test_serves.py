"""A process that serves several data ranks gets the batches that their own loaders would have given."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import pytest
from torch import distributed

from loader import (
    BatchDataset,
    ConfigError,
    DataLoader,
    DefaultTaskEncoder,
    EpochizeDataset,
    FatalSampleError,
    MapDataset,
    SortPoolDataset,
    StateError,
    StatsOptions,
    WorkerConfig,
    get_loader,
    get_savable_loader,
)
from loader.testing.stage import Values
from tests.cli.run_energon import RunEnergon, run_in_this_process
from tests.e2e.drawing_encoders import PackingTwice, Restorable, Skipping
from tests.e2e.drawing_pipelines import Build, Data, blend_of_samples, limited, train, val, write_data
from tests.e2e.rank_processes import RankProcesses, rank_processes
from tests.elastic_runs import fingerprint, through_json
from tests.representative import every_value_once

LANES = 8


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("serves"))


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RankProcesses]:
    with rank_processes(2, tmp_path_factory.mktemp("serving")) as ranks:
        yield ranks


def config(
    ranks: int, *, rank: int = 0, workers: int = 0, lanes: int | None = LANES, group: Any = None
) -> WorkerConfig:
    return WorkerConfig(rank=rank, world_size=ranks, num_workers=workers, lanes=lanes, data_parallel_group=group)


def length(sample: Any) -> int:
    return len(sample.text)


def pooled(data: Data, config: WorkerConfig) -> Any:
    return SortPoolDataset(train(data, config, batch_size=None, encoder=Restorable), 8, length, batch_size=2)


def in_epochs(data: Data, config: WorkerConfig) -> Any:
    return EpochizeDataset(train(data, config, repeat=False, path="more"), 7)


PIPELINES: dict[str, Build] = {
    "endless": train,
    "virtual epochs": partial(train, virtual_epoch_length=5),
    "packing": partial(train, encoder=PackingTwice, packing_buffer_size=9),
    "blend": blend_of_samples,
    "sorted pools": pooled,
    "limit": partial(limited, length=4),
    "validation": val,
    "validation with skips": partial(val, encoder=Skipping),
    "even ranks": partial(val, even_ranks=True),
    "padded ranks": partial(val, pad_ranks=True, batch_size=7),
    "one pass": partial(train, repeat=False),
    "passes in virtual epochs": in_epochs,
}


def plain_steps(build: Build, data: Data, ranks: int, served: Sequence[int], iterations: int, **options: Any) -> Any:
    """Return the steps of iterations of the ranks' own loaders."""
    workers = options.pop("workers", 0)
    loaders = [get_loader(build(data, config(ranks, rank=rank, workers=workers)), **options) for rank in served]
    found = []
    for _ in range(iterations):
        columns = [[fingerprint(batch) for batch in islice(loader, 20)] for loader in loaders]
        found.append(list(zip_longest(*columns)))
    for loader in loaders:
        loader.close()
    return found


def served_steps(loader: DataLoader[Any], iterations: int) -> Any:
    return [[prints(step) for step in islice(loader, 20)] for _ in range(iterations)]


def prints(step: Any) -> tuple[bytes | None, ...]:
    assert type(step) is tuple
    return tuple(None if batch is None else fingerprint(batch) for batch in step)


# ------------------------------------------------------------------------------------------------- the same batches


@pytest.mark.parametrize(("name", "served"), every_value_once(PIPELINES, [(0, 1, 2, 3), (3, 1), (2,)]), ids=str)
@pytest.mark.sampled(4)
def test_each_step_has_the_batches_of_the_loaders_of_the_served_ranks(
    name: str, served: tuple[int, ...], data: Data
) -> None:
    build = PIPELINES[name]
    expected = plain_steps(build, data, 4, served, 3)
    assert any(expected), "nothing is compared"
    assert served_steps(get_loader(build(data, config(4)), serves=served), 3) == expected


@pytest.mark.parametrize(
    "name",
    [
        *("packing", "validation with skips"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("virtual epochs", "one pass")),
    ],
)
@pytest.mark.parametrize("worker_type", ["fork", "main"])
@pytest.mark.sampled(2)
def test_workers_of_each_type_serve_ranks(worker_type: Any, name: str, data: Data) -> None:
    build = PIPELINES[name]
    options: Any = {"worker_type": worker_type}
    expected = plain_steps(build, data, 2, (0, 1), 2, workers=2, **options)
    with get_loader(build(data, config(2, workers=2)), serves=[0, 1], **options) as loader:
        assert served_steps(loader, 2) == expected


def test_threads_serve_ranks() -> None:
    expected = list(get_loader(numbers(int, workers=0), serves=[0, 1]))
    with get_loader(numbers(int, workers=2), serves=[0, 1], worker_type="thread") as loader:
        assert list(loader) == expected


def test_a_rank_that_has_ended_gives_none_until_all_have_ended(data: Data) -> None:
    steps = list(get_loader(val(data, config(4, lanes=None), batch_size=5), serves=[0, 1, 2, 3]))
    assert [[batch is not None for batch in step] for step in steps] == [  # 61 samples: 13 batches
        *[[True] * 4] * 3,
        [True, False, False, False],
    ]


def test_an_iteration_that_was_left_continues_with_the_ranks_that_have_not_ended(data: Data) -> None:
    build = partial(train, repeat=False, path="more", encoder=Skipping)
    expected = plain_steps(build, data, 4, (0, 1, 2, 3), 2)
    assert None in expected[0][-2]
    loader = get_loader(build(data, config(4)), serves=[0, 1, 2, 3])
    # Each step by an iteration of its own, which is left after it.
    assert [prints(next(iter(loader))) for _ in expected[0]] == expected[0]
    assert list(loader) == []
    assert [prints(step) for step in loader] == expected[1]


def test_the_length_is_the_number_of_steps(data: Data) -> None:
    loader = get_loader(val(data, config(4, lanes=None), batch_size=5), serves=[3, 0])
    assert len(loader) == len(list(loader)) == 4


def test_even_ranks_end_together_where_their_number_of_batches_is_known(data: Data) -> None:
    loader = get_loader(val(data, config(4, lanes=None), batch_size=5, even_ranks=True), serves=[0, 3])
    assert [[None not in step for step in loader] for _ in range(2)] == [[True] * 3] * 2


def test_even_ranks_that_have_to_agree_are_refused(data: Data) -> None:
    dataset = val(data, config(2), encoder=PackingTwice, packing_buffer_size=9, even_ranks=True)
    with pytest.raises(ConfigError, match="serve several data ranks cannot do this"):
        get_loader(dataset, serves=[0, 1])


# ------------------------------------------------------------------------------------------------- saving and restoring


@pytest.mark.parametrize(
    ("name", "ranks"), every_value_once(["endless", "packing", "sorted pools", "virtual epochs"], [1, 2, 4])
)
@pytest.mark.sampled(2)
def test_a_state_of_served_ranks_restores_on_other_numbers_of_plain_ranks_and_back(
    name: str, ranks: int, data: Data
) -> None:
    build = PIPELINES[name]
    run = RunBatches([get_loader(build(data, config(4)), serves=served) for served in ((0, 1), (2, 3))])
    reference = RunBatches([get_loader(build(data, config(1)))])
    total = 32
    expected = [next(reference) for _ in range(total)]
    assert [next(run) for _ in range(12)] == expected[:12]
    states = through_json([loader.save_state_rank() for loader in run.loaders])

    plain = RunBatches([get_loader(build(data, config(ranks, rank=rank, lanes=None))) for rank in range(ranks)])
    for loader in plain.loaders:
        loader.restore_state_global(states)
    assert [next(plain) for _ in range(8)] == expected[12:20]
    states = through_json([loader.save_state_rank() for loader in plain.loaders])

    back = RunBatches([get_loader(build(data, config(2, lanes=None)), serves=[0, 1])])
    back.loaders[0].restore_state_global(states)
    assert [next(back) for _ in range(12)] == expected[20:]


class RunBatches:
    """The micro-batches of a run in their order; each loader has one rank or serves the next ones."""

    def __init__(self, loaders: Sequence[Any]) -> None:
        self.loaders = loaders
        self._batches: Iterator[bytes] = chain.from_iterable(iter(self._step, None))

    def _step(self) -> list[bytes]:
        items = [self._next(loader) for loader in self.loaders]
        return [fingerprint(batch) for item in items for batch in (item if type(item) is tuple else (item,))]

    @staticmethod
    def _next(loader: Any) -> Any:
        # A new iteration for each step continues where the last one ended; after a virtual epoch it is empty.
        for _ in range(2):
            for item in loader:
                return item
        raise AssertionError("an endless run has ended")

    def __next__(self) -> bytes:
        return next(self._batches)


def test_a_state_saved_at_any_step_of_a_finite_pass_restores_in_loaders_of_the_ranks_and_back(data: Data) -> None:
    build = partial(train, repeat=False, path="more", encoder=Skipping)
    expected = plain_steps(build, data, 4, (0, 1, 2, 3), 1)[0]
    loader = get_loader(build(data, config(4)), serves=[0, 1, 2, 3])
    for number, step in enumerate(loader, 1):
        assert prints(step) == expected[number - 1]
        states = through_json(loader.save_state_global())
        plain = [get_loader(build(data, config(4, rank=rank))) for rank in range(4)]
        for own in plain:
            own.restore_state_global(states)
        rest = list(zip_longest(*[[fingerprint(batch) for batch in own] for own in plain]))
        assert rest == expected[number:]
        again = get_loader(build(data, config(4)), serves=[0, 1, 2, 3])
        again.restore_state_rank({"states of served ranks": states})
        assert [prints(step) for step in again] == expected[number:]
    assert number == len(expected) > 2


def test_a_plain_rank_takes_its_own_state_from_those_of_served_ranks(data: Data) -> None:
    serving = get_loader(train(data, config(4)), serves=[2, 1])
    before = [prints(step) for step in islice(serving, 3)]
    state = through_json(serving.save_state_rank())
    plain = get_loader(train(data, config(4, rank=1)))
    plain.restore_state_rank(state)
    assert fingerprint(next(iter(plain))) == prints(next(iter(serving)))[1]
    other = get_loader(train(data, config(4, rank=3)))
    with pytest.raises(StateError, match="this is rank 3 of 4"):
        other.restore_state_rank(state)
    with pytest.raises(StateError, match=r"data ranks 2, 1 of 4; this loader serves 2, 3 of 4"):
        get_loader(train(data, config(4)), serves=[2, 3]).restore_state_rank(state)
    assert before


def test_states_of_different_steps_of_the_same_rank_are_refused(data: Data) -> None:
    loaders = [get_loader(train(data, config(2)), serves=[0, 1]) for _ in range(2)]
    next(iter(loaders[1]))
    states = [loader.save_state_rank() for loader in loaders]
    with pytest.raises(StateError, match="data rank 0 was saved twice, after different steps"):
        loaders[0].restore_state_global(states)
    loaders[0].restore_state_global([states[1], states[1]])


def test_replay_rebuilds_a_step_of_all_served_ranks(data: Data) -> None:
    loader = get_loader(train(data, config(4)), serves=[1, 3])
    steps = [prints(step) for step in islice(loader, 6)]
    assert prints(loader.replay(2)) == steps[2]


# ------------------------------------------------------------------------------------------------- failures


class FailingOnce:
    def __init__(self, at: int, file: Path, fail: Callable[[], Any]) -> None:
        self.at, self.file, self.fail = at, file, fail

    def __call__(self, value: int) -> int:
        if value == self.at and self.file.exists():
            self.file.unlink()
            self.fail()
        return value


def fatal() -> None:
    raise FatalSampleError("fix it")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def numbers(function: Any, *, workers: int, ranks: int = 2) -> Any:
    values = Values(list(range(64)), worker_config=config(ranks, workers=workers))
    return BatchDataset(MapDataset(values, function), 2, list)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("at", [16, 19, 22, *(pytest.param(at, marks=pytest.mark.slow) for at in (17, 18, 20, 21, 23))])
@pytest.mark.sampled(4)
def test_after_an_error_of_one_rank_the_others_lose_no_batch(at: int, workers: int, tmp_path: Path) -> None:
    expected = list(get_loader(numbers(int, workers=0), serves=[0, 1]))
    broken = tmp_path / "broken"
    broken.touch()
    dataset = numbers(FailingOnce(at, broken, fatal), workers=workers)
    loader = get_loader(dataset, serves=[0, 1])
    found: list[Any] = []
    with pytest.raises(FatalSampleError):
        found.extend(iter(loader))
    state = loader.save_state_rank()
    restored = get_loader(numbers(int, workers=0), serves=[0, 1])
    restored.restore_state_rank(state)
    assert found + list(restored) == expected


def test_a_worker_that_was_killed_is_replaced_and_the_due_batches_follow(tmp_path: Path) -> None:
    expected = list(get_loader(numbers(int, workers=0), serves=[0, 1]))
    broken = tmp_path / "broken"
    broken.touch()
    with get_loader(numbers(FailingOnce(21, broken, die), workers=2), serves=[0, 1]) as loader:
        assert list(loader) == expected
    assert not broken.exists()
    states = loader.save_state_rank()["states of served ranks"]
    assert sum(state.get("worker_restarts", 0) for state in states) == 1


def test_a_loader_that_was_shut_down_continues_at_the_next_step(data: Data) -> None:
    expected = plain_steps(train, data, 2, (0, 1), 1)[0]
    loader = get_loader(train(data, config(2, workers=2)), serves=[0, 1])
    found = []
    for step in loader:
        found.append(prints(step))
        if len(found) == 5:
            loader.shutdown()
    assert len(found) == 5
    found += [prints(step) for step in islice(loader, 15)]
    loader.close()
    assert found == expected


@pytest.mark.parametrize(
    ("serves", "error", "message"),
    [
        ([], ConfigError, "at least one data rank"),
        ([0, 4], ConfigError, "data ranks from 0 to 3 as serves, found 4"),
        ([-1], ConfigError, "found -1"),
        ([1, 2, 1], ConfigError, "found 1 twice"),
        (3, TypeError, "expected a list of data ranks"),
        ("01", TypeError, "expected a list of data ranks"),
    ],
)
def test_ranks_that_cannot_be_served_are_refused(serves: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        get_savable_loader(numbers(int, workers=0, ranks=4), serves=serves)


# ------------------------------------------------------------------------------------------------- ranks as processes


def serve(rank: int, data: Data, served: Sequence[Sequence[int]], states: Any, steps: int) -> tuple[Any, Any, Any]:
    """Restore on one process's states, take steps, and save for the first process."""
    loader = get_savable_loader(
        train(data, config(4, workers=1, lanes=None if states else LANES)),
        serves=served[rank],
        multiprocessing_context="fork",
    )
    loader.restore_state_global(states if rank == 0 else None, src_rank=0)
    found = [prints(step) for step in islice(loader, steps)]
    saved, all_saved = loader.save_state_global(0), loader.state_dict()
    loader.close()
    return found, saved, all_saved


def test_processes_of_a_group_save_and_restore_the_ranks_that_they_serve(data: Data, processes: RankProcesses) -> None:
    expected = plain_steps(train, data, 4, (0, 1, 2, 3), 1)[0]
    (first, states, of_all), (second, nothing, _) = processes.run(serve, data, [(0, 1), (2, 3)], None, 4)
    assert [a + b for a, b in zip(first, second, strict=True)] == expected[:4]
    assert nothing is None
    assert [state["rank"] for state in states] == [0, 1, 2, 3]
    assert of_all == {"states of all ranks": states}

    # Both processes serve data rank 1, which is saved once.
    (first, states, _), (second, _, _) = processes.run(serve, data, [(1, 0), (3, 1, 2)], states, 4)
    ordered = [(a[1], a[0], b[2], b[0]) for a, b in zip(first, second, strict=True)]
    assert ordered == expected[4:8]
    assert [a[0] for a in first] == [b[1] for b in second]
    assert [state["rank"] for state in states] == [0, 1, 2, 3]

    single = get_savable_loader(train(data, config(1, lanes=None)))
    single.restore_state_global(through_json(states))
    assert [fingerprint(batch) for batch in islice(single, 12)] == list(chain.from_iterable(expected[8:11]))


def save_without_all(rank: int, data: Data) -> str:
    loader = get_savable_loader(train(data, config(4)), serves=[rank, 2])
    with pytest.raises(StateError) as caught:
        loader.save_state_global(0)
    distributed.barrier()
    return caught.value.message


def test_a_group_that_does_not_serve_all_ranks_is_refused_on_all_processes(
    data: Data, processes: RankProcesses
) -> None:
    assert processes.run(save_without_all, data) == ["no process of the group serves the data ranks 3 of 4"] * 2


# ------------------------------------------------------------------------------------------------- statistics


def test_data_ranks_have_statistics_of_their_own(data: Data, tmp_path: Path) -> None:
    options = StatsOptions(file=tmp_path / "stats{rank}.jsonl", every_s=0.001)
    loader = get_loader(train(data, config(4)), serves=[1, 3], stats=options)
    assert len(list(islice(loader, 5))) == 5
    loader.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stats1.jsonl", "stats3.jsonl"]
    with pytest.raises(ConfigError, match="cannot share prometheus_port=9400"):
        get_loader(train(data, config(4)), serves=[1, 3], stats=StatsOptions(prometheus_port=9400))


# ------------------------------------------------------------------------------------------------- commands


@pytest.fixture
def energon(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunEnergon:
    return run_in_this_process(capfd, monkeypatch)


def test_commands_read_the_states_and_logs_of_served_ranks(data: Data, tmp_path: Path, energon: RunEnergon) -> None:
    served = [(0, 1), (3, 1, 2)]  # both serve data rank 1
    loaders = [
        get_savable_loader(train(data, config(4), encoder=DefaultTaskEncoder), serves=ranks, trace_dir=tmp_path / "log")
        for ranks in served
    ]
    made: dict[tuple[int, int], list[str]] = {}
    (tmp_path / "run").mkdir()
    for number, (ranks, loader) in enumerate(zip(served, loaders, strict=True)):
        for step, batches in enumerate(islice(loader, 6)):
            made |= {(step, rank): batch.__key__ for rank, batch in zip(ranks, batches, strict=True)}
        (tmp_path / "run" / f"process{number}.json").write_text(json.dumps(loader.save_state_rank()))

    steps = [word for step in range(6) for word in ("--step", step)]
    for path in (tmp_path / "run", tmp_path / "log"):
        done = energon("trace", path, *steps, "--json")
        assert done.code == 0, done.err
        found: dict[tuple[int, int], list[str]] = {}
        for one in map(json.loads, done.out.splitlines()):
            found.setdefault((one["step"], one["rank"]), []).append(one["key"])
        assert found == made

    assert "4 ranks" in energon("checkpoint", "info", tmp_path / "run").out
    done = energon("checkpoint", "redist", tmp_path / "run", tmp_path / "two", "--new-world-size", 2)
    assert done.code == 0, done.err
    (file,) = (tmp_path / "two").iterdir()
    rest = list(islice(loaders[0], 4))
    restored = get_savable_loader(train(data, config(2, lanes=None), encoder=DefaultTaskEncoder), serves=[0, 1])
    restored.restore_state_rank(json.loads(file.read_text()))
    again = list(islice(restored, 8))
    assert [again[0][0].__key__, again[0][1].__key__] == [batch.__key__ for batch in rest[0]]
    assert [again[2][0].__key__, again[2][1].__key__] == [batch.__key__ for batch in rest[1]]
