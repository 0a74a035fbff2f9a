"""Failing samples, and workers that hang or die, in a training loop."""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import get_worker_info

from loader import (
    FatalSampleError,
    RepeatedSampleError,
    SampleError,
    SavableDataLoader,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    WorkerError,
    get_loader,
    get_train_dataset,
    log_exception,
    reraise_exception,
)
from loader.prepare.plan import SplitRequest
from tests.e2e.dataset_tree import prepare, write_shard
from tests.source_tree import ROOT


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 160 training samples; the text of the sample with key 00037 is ``text 37``."""
    folder = tmp_path_factory.mktemp("failures") / "texts"
    for first in range(0, 160, 40):
        samples = {f"{number:05d}": {"txt": b"text %d" % number} for number in range(first, first + 40)}
        write_shard(folder / f"{first}.tar", samples)
    config = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"
    prepare(folder, split=SplitRequest(ratio={"train": 1.0}), files={"dataset.yaml": config})
    return folder


class CaptionError(Exception):
    """Error as users write them: its constructor does not accept its text."""

    def __init__(self, *, length: int) -> None:
        super().__init__(f"a caption of {length} characters")
        self.length = length


class Encoder(TaskEncoder[Any, Any, Any, Any]):
    """Encoder that misbehaves for samples whose numbers end in 7."""

    treat: Callable[[TextSample], Any]

    def encode_sample(self, sample: TextSample) -> Any:
        if sample.text.endswith("7"):
            self.treat(sample)
        return sample

    def batch(self, samples: list[TextSample]) -> Any:
        return [sample.text for sample in samples]


class LateEncoder(Encoder):
    """Encoder that misbehaves at the twentieth sample of the last worker, after all have delivered micro-batches."""

    def __init__(self) -> None:
        self.count = 0

    def encode_sample(self, sample: TextSample) -> Any:
        self.count += 1
        info = get_worker_info()
        if self.count == 20 and (info is None or info.id == info.num_workers - 1):
            self.treat(sample)
        return sample


class Failing(Encoder):
    def treat(self, sample: TextSample) -> None:
        raise CaptionError(length=len(sample.text))


class FailingAlways(Encoder):
    def encode_sample(self, sample: TextSample) -> None:
        raise CaptionError(length=len(sample.text))


class FailingToBatch(Encoder):
    def batch(self, samples: list[TextSample]) -> None:
        raise CaptionError(length=len(samples))


class Locked(Encoder):
    """Encoder whose samples do not pickle; the other process does not get them."""

    def treat(self, sample: TextSample) -> None:
        sample.text = threading.Lock()  # type: ignore[assignment]

    def batch(self, samples: list[TextSample]) -> Any:
        return samples


class Misspelt(Encoder):
    def treat(self, sample: TextSample) -> Any:
        return smaple  # type: ignore[name-defined]  # noqa: F821


class Mistaken(Encoder):
    def encode_sample(self, sample: TextSample) -> Any:
        return sample.txet  # type: ignore[attr-defined]


class Stopping(Encoder):
    def treat(self, sample: TextSample) -> None:
        raise FatalSampleError("that will do")


class Dying(LateEncoder):
    def treat(self, sample: TextSample) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Leaving(LateEncoder):
    def treat(self, sample: TextSample) -> None:
        sys.exit(3)


class Hanging(LateEncoder):
    """Encoder that hangs until a file exists."""

    def __init__(self, end: Path) -> None:
        super().__init__()
        self.end = end

    def treat(self, sample: TextSample) -> None:
        while not self.end.exists():
            time.sleep(0.01)


def loader_of(
    texts: Path,
    encoder: Encoder,
    *,
    workers: int,
    method: str | None = None,
    handler: Any = log_exception,
    **options: Any,
) -> SavableDataLoader[Any]:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=6, global_error_handler=handler)
    dataset = get_train_dataset(
        texts,
        worker_config=config,
        task_encoder=encoder,
        batch_size=2,
        shuffle_buffer_size=100,
        max_samples_per_sequence=10,
        repeat=False,
    )
    return get_loader(dataset, multiprocessing_context=method, **options)


def texts_of(loader: Iterable[list[str]]) -> list[str]:
    return [text for batch in loader for text in batch]


HERE = pytest.param(0, None, id="here")
FORKED = pytest.param(2, "fork", id="forked")


# ---------------------------------------------------------------------------------------------- samples that fail


@pytest.mark.parametrize(("workers", "method"), [HERE, FORKED])
def test_samples_that_fail_are_left_out_and_the_others_come(texts: Path, workers: int, method: str | None) -> None:
    found = texts_of(loader_of(texts, Failing(), workers=workers, method=method, handler=leave_out))
    assert sorted(found) == sorted(f"text {number}" for number in range(160) if number % 10 != 7)


def test_samples_that_do_not_pickle_are_skipped_by_name(texts: Path, capfd: pytest.CaptureFixture[str]) -> None:
    batches = loader_of(texts, Locked(), workers=2, method="fork", handler=write_keys)
    arrived = {sample.__key__ for batch in batches for sample in batch}
    keys = {f"{number - number % 40}.tar/{number:05d}" for number in range(160)}
    lines = re.findall(r"cannot pickle .*lock.*, in the sample (\S+7)\b.* keys: (\S+) (\S+)", capfd.readouterr().err)
    assert all(culprit in keys_of_batch for culprit, *keys_of_batch in lines)
    skipped = {key for _, *keys_of_batch in lines for key in keys_of_batch}
    assert skipped == keys - arrived
    assert {key for key in keys if key.endswith("7")} <= skipped
    assert len(skipped) <= 32


@pytest.mark.parametrize(
    ("workers", "method"), [HERE, FORKED, pytest.param(2, "spawn", id="spawned", marks=pytest.mark.slow)]
)
def test_a_misspelt_attribute_ends_the_run_after_ten_samples_with_a_guess_and_one_line_of_the_log(
    texts: Path, workers: int, method: str | None, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    _ends_by_a_mistake(loader_of(texts, Mistaken(), workers=workers, method=method))
    log = capfd.readouterr().err + caplog.text
    assert log.count("skipped sample") <= max(1, workers)


def test_a_misspelt_attribute_ends_a_run_in_threads(texts: Path) -> None:
    _ends_by_a_mistake(loader_of(texts, Mistaken(), workers=2, worker_type="thread"))


def _ends_by_a_mistake(loader: SavableDataLoader[Any]) -> None:
    with pytest.raises(
        RepeatedSampleError, match=r"for each of its first 10 samples .*did you mean 'text'\?"
    ) as caught:
        texts_of(loader)
    line = Mistaken.encode_sample.__code__.co_firstlineno + 1
    assert str(caught.value.at).startswith(f"{__file__}:{line}, in encode_sample, for sample '")
    assert "the argument is TextSample(__key__=" in str(caught.value)


def write_keys(error: Exception, samples: list[TextSample], sources: Any) -> None:
    """Write the keys of a failed batch of two samples to the error output."""
    sys.stderr.write(f"{error} keys: {samples[0].__key__} {samples[1].__key__}\n")


def leave_out(error: Exception, sample: Any, sources: Any) -> None:
    """Ignore a failed sample."""


@pytest.mark.slow
def test_five_failures_of_a_cause_are_a_line_each_and_the_first_a_traceback(
    texts: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    texts_of(loader_of(texts, Failing(), workers=2, method="spawn"))
    log = capfd.readouterr().err
    lines = [line for line in log.splitlines() if line.startswith("skipped sample ")]
    assert len(lines) == 10
    for line in lines:
        assert re.search(
            r"^skipped sample '\d+\.tar/\d{5}': encode_sample raised CaptionError: a caption of \d+ characters"
            r" · at .*test_worker_failures\.py:\d+ · in .*/\d+\.tar: \d{5}\.txt · lane [0-5] · worker [01]",
            line,
        )
    by_worker = [[line for line in lines if f"worker {worker}" in line] for worker in range(2)]
    assert log.count("Traceback") == 2
    for own in by_worker:
        assert ["so far" in line for line in own] == [False] + [True] * (len(own) - 1)
        assert own[-1].endswith(f"{len(own)} times so far")


@pytest.mark.parametrize(("workers", "method"), [HERE, FORKED])
@pytest.mark.parametrize(
    ("encoder", "hook"), [(FailingAlways, "encode_sample"), (FailingToBatch, "batch")], ids=["encode", "batch"]
)
@pytest.mark.sampled(2)
def test_a_hook_that_always_fails_stops_the_run_with_its_error_as_the_cause(
    texts: Path, workers: int, method: str | None, encoder: type[Encoder], hook: str
) -> None:
    loader = loader_of(texts, encoder(), workers=workers, method=method, handler=leave_out)
    with pytest.raises(
        SampleError, match=f"{hook} failed (with CaptionError: |100 times in a row for samples of )"
    ) as caught:
        texts_of(loader)
    cause = caught.value.__cause__
    assert isinstance(cause, CaptionError)
    assert cause.length > 0
    assert re.match(r"\d+\.tar/\d{5}", caught.value.key or "")


@pytest.mark.parametrize(("workers", "method"), [HERE, FORKED])
@pytest.mark.parametrize(
    ("encoder", "handler", "kind"),
    [
        (Failing, reraise_exception, CaptionError),
        (Misspelt, leave_out, NameError),
        (Stopping, leave_out, FatalSampleError),
    ],
    ids=["raising-handler", "programming-error", "fatal"],
)
@pytest.mark.sampled(2)
def test_an_error_that_stops_the_run_comes_whole_with_the_sample_and_the_place_in_the_hook(
    texts: Path, *, workers: int, method: str | None, encoder: type[Encoder], handler: Any, kind: Any
) -> None:
    with pytest.raises(kind) as caught:
        texts_of(loader_of(texts, encoder(), workers=workers, method=method, handler=handler))
    notes = "\n".join(caught.value.__notes__)
    assert re.search(r"raised by encode_sample for sample '\d+\.tar/\d{4}7'\n  at: .*/\d+\.tar", notes)
    assert kind is not CaptionError or 6 <= caught.value.length <= 8
    if workers:
        assert re.search(r"in worker process [01]:\n  Traceback(.|\n)*, in treat\n", notes)


# ------------------------------------------------------------------------------------------------- workers that die


@pytest.mark.parametrize(
    ("workers", "method", "encoder", "how"),
    [
        (2, "fork", Dying, "was killed by SIGKILL"),
        pytest.param(2, "spawn", Dying, "was killed by SIGKILL", marks=pytest.mark.slow),
        (3, "fork", Leaving, "ended with exit code 3"),
    ],
)
def test_a_worker_that_dies_ends_the_loop_with_its_name_and_its_last_sample(
    texts: Path, workers: int, method: str, encoder: type[Encoder], how: str
) -> None:
    loader = loader_of(texts, encoder(), workers=workers, method=method, max_worker_restarts=0)
    with pytest.raises(WorkerError) as caught:
        texts_of(loader)
    assert re.match(rf"worker process {workers - 1} \(pid \d+\) {how}", caught.value.message)
    assert re.search(r"last sample started: '\d+\.tar/\d{5}'", caught.value.at or "")
    assert not multiprocessing.active_children()


# ------------------------------------------------------------------------------------------------ workers that hang


class WhenWarned(logging.Handler):
    """Log handler that touches a file when the watchdog warns."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self.file.touch()


@pytest.fixture
def end_when_warned(tmp_path: Path) -> Iterator[WhenWarned]:
    handler = WhenWarned(tmp_path / "end")
    log = logging.getLogger("loader.training.workers.watchdog")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


@pytest.mark.parametrize(("workers", "method"), [HERE, FORKED])
def test_a_hang_is_reported_once_and_the_loop_goes_on_when_it_ends(
    texts: Path, workers: int, method: str | None, end_when_warned: WhenWarned
) -> None:
    loader = loader_of(texts, Hanging(end_when_warned.file), workers=workers, method=method, watchdog_timeout_seconds=1)
    assert len(texts_of(loader)) == 160
    (message,) = end_when_warned.messages
    assert re.search(r"last sample started: '\d+\.tar/\d{5}'", message)
    assert "in treat\n" in message


@pytest.mark.parametrize(("workers", "method"), [HERE, FORKED])
def test_a_hang_that_is_to_fail_raises(texts: Path, workers: int, method: str | None, tmp_path: Path) -> None:
    encoder = Hanging(tmp_path / "never")
    loader = loader_of(texts, encoder, workers=workers, method=method, watchdog_timeout_seconds=1, fail_on_timeout=True)
    with pytest.raises(WorkerError, match="has made no micro-batch for 1 s") as caught:
        texts_of(loader)
    assert re.search(r"last sample started: '\d+\.tar/\d{5}'", caught.value.at or "")
    assert "in treat" in caught.value.__notes__[0]


# ------------------------------------------------------------------------------------------------------------ Ctrl-C

TRAINING_LOOP = """
import sys, time
from loader import TaskEncoder, WorkerConfig, get_loader, get_train_dataset

class Slow(TaskEncoder):
    def encode_sample(self, sample):
        time.sleep(0.01)
        return sample

config = WorkerConfig(rank=0, world_size=1, num_workers=2)
dataset = get_train_dataset(sys.argv[1], worker_config=config, task_encoder=Slow(), batch_size=4,
                            shuffle_buffer_size=100, max_samples_per_sequence=10)
for batch in get_loader(dataset):
    print("a batch", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_run_that_is_ended_leaves_no_processes(texts: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", TRAINING_LOOP, str(texts)]
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert run.stdout is not None
    run.stdout.readline()
    if number == signal.SIGINT:
        os.killpg(run.pid, number)  # as a terminal does
    else:
        run.send_signal(number)
    _, printed = run.communicate()
    assert printed.count(b"Traceback") == (number == signal.SIGINT), "workers say nothing of it"
    with pytest.raises(ProcessLookupError):  # noqa: PT012 - until the last of the group is gone
        while True:
            os.killpg(run.pid, 0)
            time.sleep(0.05)
