"""The board on which workers note what they do."""

from __future__ import annotations

import gc
import os
import pickle

import pytest

from loader.training.workers.worker_board import LastSampleBoard
from tests.unit.training.real_workers import be_killed, end_well, workers


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_killed_worker_has_left_its_last_sample_and_its_process(method):
    with workers(end_well, be_killed, method=method) as started:
        started.processes[1].join()
        noted = started.board.read(1)
        assert (noted.lane, noted.position) == (3, 7)
        assert started.board.pid(1) == started.processes[1].pid


def test_nothing_is_noted_before_a_worker_begins():
    board = LastSampleBoard(2)
    board.slot(0)
    assert (board.read(0), board.read(1), board.pid(1)) == (None, None, None)
    assert board.pid(0) == os.getpid()


def test_workers_do_not_write_to_each_others_slots():
    board = LastSampleBoard(3)
    for worker in range(3):
        board.slot(worker).note(worker, 2**40 + worker)
    assert [(noted.lane, noted.position) for noted in map(board.read, range(3))] == [
        (worker, 2**40 + worker) for worker in range(3)
    ]


@pytest.mark.parametrize("worker", [-1, 2])
def test_there_is_no_slot_beyond_the_workers(worker):
    with pytest.raises(IndexError, match=rf"expected a worker of \[0, 2\), found {worker}"):
        LastSampleBoard(2).slot(worker)


def test_a_board_goes_only_to_processes_that_are_being_started():
    with pytest.raises(RuntimeError, match="only be shared between processes through inheritance"):
        pickle.dumps(LastSampleBoard(1))


def test_a_board_leaves_no_open_files():
    before = sorted(os.listdir("/dev/fd"))
    board = LastSampleBoard(4)
    assert len(os.listdir("/dev/fd")) >= len(before) + 4
    del board
    gc.collect()
    assert len(os.listdir("/dev/fd")) <= len(before) + 1, "one for the shared memory, which is kept for the next board"
