"""Ranks as real processes that save, restore and end together by ``torch.distributed``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed

from loader import (
    ConfigError,
    SavableDataLoader,
    StateError,
    TaskEncoder,
    WorkerConfig,
    get_savable_loader,
)
from tests.e2e.drawing_encoders import PackingTwice
from tests.e2e.drawing_pipelines import Build, Data, train, val, write_data
from tests.e2e.rank_processes import RankProcesses, rank_processes
from tests.elastic_runs import Delivered, Pipeline, assert_same, fingerprint, number_of, uninterrupted

RANKS = 4
LANES = 12


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("ranks"))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RankProcesses]:
    with rank_processes(RANKS, tmp_path_factory.mktemp("group")) as processes:
        yield processes


PIPELINES: dict[str, tuple[Build, int]] = {  # and how many worker processes the ranks have
    "plain": (train, 2),
    "packing": (partial(train, encoder=PackingTwice, packing_buffer_size=9), 0),
}

# ------------------------------------------------------------------------------------------------- functions of ranks


def loader_in(
    build: Build, data: Data, members: Sequence[int], *, workers: int = 0, lanes: int | None = LANES
) -> SavableDataLoader[Any] | None:
    """Return the loader of this rank in a group of some of the ranks; None if it is not a member."""
    group = distributed.new_group(list(members))  # all ranks must call it
    if distributed.get_rank() not in members:
        return None
    config = WorkerConfig(
        rank=distributed.get_rank(group),
        world_size=distributed.get_world_size(group),
        num_workers=workers,
        data_parallel_group=group,
        lanes=lanes,
    )
    # Processes that a fork server started would start fork servers of their own.
    return get_savable_loader(build(data, config), multiprocessing_context="fork")


def delivered_by(loader: SavableDataLoader[Any], steps: int) -> Delivered:
    return {number_of(batch): fingerprint(batch) for _, batch in zip(range(steps), loader, strict=False)}


@dataclass(frozen=True, kw_only=True)
class Part:
    """A section of a run: its ranks, number of steps and worker processes."""

    members: Sequence[int]
    steps: int
    workers: int = 0


def start_and_save(rank: int, build: Build, data: Data, part: Part, dst_rank: int) -> tuple[Delivered, Any]:
    loader = loader_in(build, data, part.members, workers=part.workers)
    if loader is None:
        return {}, None
    delivered = delivered_by(loader, part.steps)
    states = loader.save_state_global(dst_rank)
    loader.close()
    return delivered, states


def restore_and_go_on(
    rank: int, build: Build, data: Data, part: Part, held: Sequence[Any], *, src_rank: int | None
) -> Delivered:
    """Continue from the states of each rank."""
    loader = loader_in(build, data, part.members, workers=part.workers, lanes=None)
    if loader is None:
        return {}
    loader.restore_state_global(held[rank], src_rank=src_rank)
    delivered = delivered_by(loader, part.steps)
    loader.close()
    return delivered


def save_to_file_and_restore(rank: int, build: Build, data: Data, file: str) -> tuple[Delivered, Delivered]:
    """Save from the first of four ranks, as training scripts do, and continue on two, the second of which reads."""
    loader = loader_in(build, data, range(RANKS))
    assert loader is not None
    before = delivered_by(loader, 3)
    states = loader.save_state_global(global_dst_rank=0)
    if rank == 0:
        torch.save({"data": states}, file)
    distributed.barrier()
    loader = loader_in(build, data, (1, 2), lanes=None)
    if loader is None:
        return before, {}
    states = torch.load(file, weights_only=True)["data"] if rank == 2 else None
    loader.restore_state_global(states, src_rank=1)
    return before, delivered_by(loader, 6)


def loop_with_collectives(
    rank: int, build: Build, data: Data, members: Sequence[int], passes: int
) -> list[tuple[list[str], int]]:
    """Count the micro-batches of all ranks in each step, which hangs if they do not end together."""
    loader = loader_in(build, data, members, lanes=None)
    if loader is None:
        return []
    found = []
    for _ in range(passes):
        keys, total = [], 0
        for batch in loader:
            count = torch.ones(1, dtype=torch.int64)
            distributed.all_reduce(count, group=loader.worker_config.data_parallel_group)
            total += int(count)
            keys += batch.__key__
        found.append((keys, total))
    return found


def default_config(rank: int) -> tuple[int, int, int]:
    config = WorkerConfig.default_worker_config(num_workers=3)
    return config.rank, config.world_size, config.num_workers


def refusals_of_another_group(rank: int, data: Data) -> list[str]:
    """Return the errors of a loader whose worker config and process group differ in size."""
    config = WorkerConfig(rank=0, world_size=3, num_workers=0)
    loader = get_savable_loader(train(data, config))
    said = []
    for call in (
        loader.save_state_global,
        lambda: loader.restore_state_global([], src_rank=0),
        lambda: get_savable_loader(val(data, config, encoder=PackingTwice, packing_buffer_size=3, even_ranks=True)),
    ):
        try:
            call()
        except (StateError, ConfigError) as error:
            said.append(str(error))
    return said


def refusals_of_a_rank_that_is_not_there(rank: int, data: Data) -> list[str]:
    """Return the errors of a loader whose states are sent to, or read from, a rank that does not exist."""
    loader = get_savable_loader(train(data, WorkerConfig.default_worker_config(num_workers=0)))
    said = []
    for call in (lambda: loader.save_state_global(RANKS), lambda: loader.restore_state_global(None, src_rank=-1)):
        with pytest.raises(StateError) as caught:
            call()
        said.append(str(caught.value))
    return said


# --------------------------------------------------------------------------------------------------------------- tests


def joined(by_rank: Sequence[Delivered]) -> Delivered:
    everything: Delivered = {}
    for delivered in by_rank:
        assert not everything.keys() & delivered.keys(), "micro-batches came on two ranks"
        everything |= delivered
    return everything


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize(
    ("members", "src_rank"), [((0, 1, 2, 3), 3), ((3, 1), 0), ((0, 2, 3), None), ((2,), 0)], ids=str
)
@pytest.mark.sampled(4)
def test_a_run_of_four_ranks_goes_on_in_any_group_whoever_holds_the_states(
    name: str, members: tuple[int, ...], src_rank: int | None, data: Data, ranks: RankProcesses
) -> None:
    build, workers = PIPELINES[name]
    dst_rank = 2
    answers = ranks.run(start_and_save, build, data, Part(members=range(RANKS), steps=3, workers=workers), dst_rank)
    before = joined([delivered for delivered, _ in answers])
    states = [saved for _, saved in answers]
    assert sorted(before) == list(range(12))
    assert [saved is not None for saved in states] == [rank == dst_rank for rank in range(RANKS)]

    # Group members are ordered by rank; only the named one has the states, unless all have them.
    holder = None if src_rank is None else sorted(members)[src_rank]
    held = [states[dst_rank] if holder in (None, rank) else None for rank in range(RANKS)]
    part = Part(members=members, steps=12 // len(members), workers=workers)
    after = ranks.run(partial(restore_and_go_on, src_rank=src_rank), build, data, part, held)
    expected = uninterrupted(Pipeline(build=partial(build, data), batches=24, lanes=LANES))
    assert_same(before | joined(after), expected, f"{members}")
    assert [bool(delivered) for delivered in after] == [rank in members for rank in range(RANKS)]


def test_ranks_are_counted_within_their_group(data: Data, ranks: RankProcesses) -> None:
    answers = ranks.run(start_and_save, train, data, Part(members=(1, 2, 3), steps=2), 1)
    assert [saved is not None for _, saved in answers] == [False, False, True, False]
    assert [state["rank"] for state in answers[2][1]] == [0, 1, 2]


def test_a_state_goes_through_a_file_that_one_rank_writes_and_another_reads(
    data: Data, ranks: RankProcesses, tmp_path: Path
) -> None:
    answers = ranks.run(save_to_file_and_restore, train, data, str(tmp_path / "state.pt"))
    found = joined([delivered for delivered, _ in answers]) | joined([delivered for _, delivered in answers])
    assert_same(found, uninterrupted(Pipeline(build=partial(train, data), batches=24, lanes=LANES)), "from a file")


@pytest.mark.parametrize("members", [(0, 1, 2, 3), (0, 1, 2), (1, 3)], ids=str)
@pytest.mark.parametrize(
    "build",
    [
        partial(val, encoder=TaskEncoder, batch_size=4, even_ranks=True),
        partial(val, encoder=PackingTwice, batch_size=1, packing_buffer_size=5, even_ranks=True),
    ],
    ids=["known ahead", "packing"],
)
@pytest.mark.sampled(4)
def test_a_loop_with_collective_operations_over_even_ranks_does_not_hang(
    build: Build, members: tuple[int, ...], data: Data, ranks: RankProcesses
) -> None:
    answers = ranks.run(loop_with_collectives, build, data, members, 2)
    for number in range(2):
        passes = [answers[rank][number] for rank in members]
        totals = {total for _, total in passes}
        assert len(totals) == 1
        assert totals.pop() >= 12
        keys = [key for keys, _ in passes for key in keys]
        assert len(keys) == len({*keys}), "a sample came twice"
        assert [keys for keys, _ in passes] == [answers[rank][0][0] for rank in members], "passes differ"


def test_the_default_worker_config_knows_rank_and_ranks(ranks: RankProcesses) -> None:
    assert ranks.run(default_config) == [(rank, RANKS, 3) for rank in range(RANKS)]


def test_a_group_of_another_size_than_the_worker_config_says_is_refused(data: Data, ranks: RankProcesses) -> None:
    for saving, restoring, ending in ranks.run(refusals_of_another_group, data):
        assert "the process group has 4 ranks, the worker config has world_size=3" in saving
        assert "the process group has 4 ranks, the worker config has world_size=3" in restoring
        assert "the process group has 4 ranks, the worker config has world_size=3" in ending


def test_states_go_to_and_come_from_ranks_that_are_there(data: Data, ranks: RankProcesses) -> None:
    for saving, restoring in ranks.run(refusals_of_a_rank_that_is_not_there, data):
        assert "expected save_state_global() to be called with a rank from 0 to 3, found 4" in saving
        assert "global_dst_rank= counts among all ranks" in saving
        assert "expected restore_state_global() to be called with a rank from 0 to 3, found -1" in restoring


def test_without_a_process_group_several_ranks_are_told_what_works(data: Data) -> None:
    config = WorkerConfig(rank=0, world_size=2, num_workers=0)
    loader = get_savable_loader(train(data, config))
    with pytest.raises(StateError, match=r"torch\.distributed, which is not initialised") as caught:
        loader.save_state_global(0)
    assert "save_state_rank() on each rank" in str(caught.value)
    with pytest.raises(StateError, match="not initialised"):
        loader.restore_state_global(None, src_rank=0)
    with pytest.raises(ConfigError, match="init_process_group"):
        get_savable_loader(val(data, config, encoder=PackingTwice, packing_buffer_size=3, even_ranks=True))


def test_a_single_rank_needs_no_process_group(data: Data) -> None:
    loader = get_savable_loader(train(data, WorkerConfig(rank=0, world_size=1, num_workers=0)))
    delivered_by(loader, 3)
    states = loader.save_state_global(0)
    assert states == [loader.save_state_rank()]
    again = get_savable_loader(train(data, WorkerConfig(rank=0, world_size=1, num_workers=0)))
    again.restore_state_global(states, src_rank=0)
    assert delivered_by(again, 3) == delivered_by(loader, 3)
