"""Signals to all processes of a training run: handlers run once, workers survive, and states saved there are exact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import loader as package
from loader import WorkerConfig, get_loader, get_savable_loader
from tests.e2e import signalled_training
from tests.e2e.drawing_encoders import PackingTwice
from tests.e2e.drawing_pipelines import Build, Data, limited, train, val, write_data
from tests.elastic_runs import fingerprint
from tests.source_tree import ROOT


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("signals"))


SLOW = pytest.mark.slow


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=SLOW), pytest.param("forkserver", marks=SLOW)])
def test_a_signal_to_all_processes_runs_the_handler_once_and_its_state_is_exact(
    data: Data, tmp_path: Path, method: str
) -> None:
    log = tmp_path / "handlers"
    done = subprocess.run(
        [sys.executable, signalled_training.__file__, str(data.texts), str(log), method],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    handled = log.read_text().splitlines()
    assert {line.split()[0] for line in handled} == {str(found["pid"])}, "it ran in a worker"
    assert found["once"] == len(signalled_training.SIGNALS)
    assert found["restarts"] == 0, "a worker has died"
    assert len(found["continued"]) > 5
    for steps, batches in found["continued"].items():
        assert batches == found["got"][int(steps) : int(steps) + 2]
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr


# ------------------------------------------------------------------ handlers at each place where Python may run them

FILES = tuple(f"{os.path.dirname(package.__file__)}/{part}/" for part in ("training/loaders", "pipeline/stages"))


def is_handled_at(frame: FrameType, event: str) -> bool:
    return event in ("call", "c_return") and frame.f_code.co_filename.startswith(FILES)


class SavedEverywhere:
    """Saves the state of a loader wherever Python runs the handlers of signals: at calls, and after those of C code.

    Attributes:
        states: The states in the order of time, each with the number of micro-batches that the loop has got.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self.got: list[Any] = []
        self.states: list[tuple[int, Any]] = []

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        if is_handled_at(frame, event):
            self.states.append((len(self.got), self._loader.save_state_rank()))

    def begin(self, batches: Any) -> Iterator[Any]:
        sys.setprofile(self)
        try:
            return iter(batches)
        finally:
            sys.setprofile(None)

    def follow(self, batches: Iterator[Any]) -> None:
        sys.setprofile(self)
        try:
            for batch in batches:
                self.got.append(batch)
        finally:
            sys.setprofile(None)


PIPELINES: dict[str, Build] = {
    "endless": train,
    "virtual epochs": partial(train, virtual_epoch_length=4),
    "packing": partial(train, encoder=PackingTwice, packing_buffer_size=9),
    "limit": partial(limited, length=4),
    "validation": partial(val, batch_size=20),
}


def plain(loader: Any) -> Any:
    return loader


def ahead(loader: Any) -> Any:
    return loader.to_device("cpu", prefetch=2)


def config(workers: int) -> WorkerConfig:
    return WorkerConfig(rank=0, world_size=2, num_workers=workers, lanes=4)


def check_states(loader: Any, batches: Any) -> None:
    """Check that each state within a step of the second and third iteration is that of before the step."""
    for _ in islice(batches, 3):
        pass
    for _ in range(2):
        before = loader.save_state_rank()
        saving = SavedEverywhere(loader)
        iteration = saving.begin(batches)
        expected = [loader.save_state_rank()]  # it starts over
        saving.follow(note_states(loader, islice(iteration, 5), expected))
        assert len(saving.states) > 5
        for steps, state in saving.states:
            assert state == expected[steps] or (steps == 0 and state == before)


def note_states(loader: Any, batches: Iterator[Any], states: list[Any]) -> Iterator[Any]:
    for batch in batches:
        profile = sys.getprofile()
        sys.setprofile(None)
        states.append(loader.save_state_rank())
        sys.setprofile(profile)
        yield batch


@pytest.mark.parametrize("on", [plain, ahead])
@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.sampled(4)
def test_a_state_saved_within_a_step_is_that_before_it(data: Data, name: str, on: Callable[[Any], Any]) -> None:
    loader = get_savable_loader(PIPELINES[name](data, config(0)))
    check_states(loader, on(loader))


@pytest.mark.parametrize("on", [plain, ahead])
def test_states_of_served_ranks_saved_within_a_step_are_those_before_it(data: Data, on: Callable[[Any], Any]) -> None:
    loader = get_loader(train(data, config(0), virtual_epoch_length=4), serves=[0, 1])
    check_states(loader, on(loader))


class InterruptedOnce:
    """Raises where Python runs the handlers of signals, at the n-th of these places."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        if is_handled_at(frame, event):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


def take(batches: Any, got: list[Any], steps: int) -> None:
    for batch in batches:
        got.append(fingerprint(batch))
        if len(got) == steps:
            return


@pytest.mark.parametrize("on", [plain, ahead])
def test_a_handler_that_raises_within_a_step_loses_no_batch(data: Data, on: Callable[[Any], Any]) -> None:
    expected: list[Any] = []
    take(get_savable_loader(train(data, config(0))), expected, 6)
    number, was_reached = 0, True
    while was_reached:
        number += 4  # most places are met, in one of the steps
        loader = get_savable_loader(train(data, config(0)))
        got: list[Any] = []
        take(batches := on(loader), got, 2)
        interrupt = InterruptedOnce(number)
        iteration = iter(batches)  # a reference, so that no generator ends meanwhile
        sys.setprofile(interrupt)
        try:
            take(iteration, got, 4)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        was_reached = interrupt.left <= 0
        saved, steps = loader.save_state_rank(), len(got)
        take(batches, got, 6)
        assert got == expected
        again = get_savable_loader(train(data, config(0)))
        again.restore_state_rank(saved)
        rest: list[Any] = []
        take(again, rest, 6 - steps)
        assert rest == expected[steps:]
    assert number > 30
