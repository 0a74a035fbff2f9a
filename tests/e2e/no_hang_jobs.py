"""Jobs of several ranks with an ``all_reduce`` for each micro-batch, to which something happens: does any rank hang?"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from torch.utils.data import get_worker_info

from loader import (
    DefaultTaskEncoder,
    FatalSampleError,
    SavableDataLoader,
    SkipSample,
    TextSample,
    WorkerConfig,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    is_padding,
)
from loader.training.workers.stream_options import WorkerType

__all__ = ["EVENTS", "GROUP_TIMEOUT_S", "WORKER_TIMEOUT_S", "Event", "Job", "Outcome", "run_job"]

RANKS = 4
GROUP_TIMEOUT_S = 8.0
"""The ``timeout`` of the process group."""
WORKER_TIMEOUT_S = 1.5
SAMPLES = 61
"""Samples of the split part ``val``: the numbers from 157 on."""
FIRST = 157

_contexts = get_context("forkserver")


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run of four ranks.

    Attributes:
        event: What happens, a key of :data:`EVENTS`.
        data: A dataset of ``write_texts``, and one with fewer samples than ranks.
        small: That one.
        folder: An empty folder.
        rank: The rank to which it happens.
        step: The step at which it happens.
        batch_size: Samples of a micro-batch.
        workers: Worker processes of each rank.
        worker_type: Their type.
    """

    event: str
    data: Path
    small: Path
    folder: Path
    rank: int = 1
    step: int = 1
    batch_size: int = 4
    workers: int = 2
    worker_type: WorkerType = "fork"


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happens to a run.

    Attributes:
        build: Arguments of the dataset, or ``kind="train"``.
        options: Options of the loader.
        at_sample: Happens to the worker process that encodes a sample on the chosen rank; once.
        at_key: Happens whenever the sample of this number is encoded.
        at_step: Happens to the rank, before it takes the micro-batch of the chosen step.
        ends: All ranks end the run with errors; otherwise all finish. The patterns are found in the error of the
            chosen rank, and in those of the others.
        lost: Numbers of the samples that do not come.
        needs_workers: It happens to worker processes.
        replaces: A worker is replaced on some rank; None: unless it had nothing left to do.
    """

    build: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    at_sample: Callable[[], None] | None = None
    at_key: tuple[int, Callable[[], None]] | None = None
    at_step: Callable[[SavableDataLoader[Any]], None] | None = None
    ends: tuple[str, str] | None = None
    lost: frozenset[int] = frozenset()
    needs_workers: bool = False
    replaces: bool | None = False


# -------------------------------------------------------------------------------------------------------------- events


def crash() -> None:
    ctypes.string_at(0)


def hang_in_c() -> None:
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 10**9)  # for minutes; signals do not end it


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep() -> None:
    time.sleep(3)


def fail() -> None:
    raise FatalSampleError("this sample shows that the program is wrong")


def kill_worker(loader: SavableDataLoader[Any]) -> None:
    stream: Any = loader.run.lanes.start()
    os.kill(stream.source.pid(0), signal.SIGKILL)


def kill_rank(_: SavableDataLoader[Any]) -> None:
    die()


def stop_rank(_: SavableDataLoader[Any]) -> None:
    stop()


def sleep_rank(_: SavableDataLoader[Any]) -> None:
    sleep()


def fail_in_loop(_: SavableDataLoader[Any]) -> None:
    raise RuntimeError("out of memory on this GPU")


PADDED: dict[str, Any] = {"pad_ranks": True}
REPLACED: dict[str, Any] = {"worker_timeout_s": WORKER_TIMEOUT_S}
GONE = frozenset(range(180, 200))

CLOSED = "by peer"
"""Part of gloo's errors ``Connection closed by peer`` and ``Connection reset by peer``.

Of ranks that time out, the first one ends the connections of the others.
"""

EVENTS: dict[str, Event] = {
    "ranks with unequal data": Event(build=PADDED),
    "ranks with unequal data, dropped": Event(build={"even_ranks": True}, lost=frozenset({-1})),
    "ranks without data": Event(build={**PADDED, "small": True}),
    "skipped samples and batches": Event(build={**PADDED, "gone": GONE}, lost=GONE),
    "no sample of a rank kept": Event(
        build={**PADDED, "gone_of_rank": True}, ends=("all samples of this pass were skipped or failed", CLOSED)
    ),
    "packing": Event(build={**PADDED, "packing_buffer_size": 5}),
    "packing, even": Event(build={"even_ranks": True, "packing_buffer_size": 5}, lost=frozenset({-1})),
    "end of a training pass": Event(build={"kind": "train", "repeat": False, "even_ranks": True}, lost=frozenset({-1})),
    "end of a virtual epoch": Event(build={"kind": "train", "virtual_epoch_length": 5}, lost=frozenset({-1})),
    "restored in padding": Event(build={**PADDED, "packing_buffer_size": 5, "restores": True}),
    "worker killed": Event(build=PADDED, at_step=kill_worker, needs_workers=True, replaces=None),
    "worker crashes": Event(build=PADDED, at_sample=crash, needs_workers=True, replaces=True),
    "worker stopped": Event(build=PADDED, options=REPLACED, at_sample=stop, needs_workers=True, replaces=True),
    "decoder stuck in C": Event(build=PADDED, options=REPLACED, at_sample=hang_in_c, needs_workers=True, replaces=True),
    "sample that kills": Event(
        build=PADDED, options=REPLACED, at_key=(190, crash), lost=frozenset({190}), needs_workers=True, replaces=True
    ),
    "slow sample": Event(build=PADDED, at_sample=sleep),
    "slow rank": Event(build=PADDED, at_step=sleep_rank),
    "error in a hook": Event(
        build=PADDED, at_sample=fail, ends=("this sample shows that the program is wrong", CLOSED)
    ),
    "error in the loop": Event(build=PADDED, at_step=fail_in_loop, ends=("out of memory on this GPU", CLOSED)),
    "replacements spent": Event(
        build=PADDED,
        options={"max_worker_restarts": 0},
        at_sample=die,
        ends=("was killed by SIGKILL", CLOSED),
        needs_workers=True,
    ),
    "rank killed": Event(build=PADDED, at_step=kill_rank, ends=("", CLOSED)),
    "rank stopped": Event(build=PADDED, at_step=stop_rank, ends=("", f"Timed out waiting|{CLOSED}")),
}


class Encoder(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Texts whose samples may do something to the process that encodes them, and that may be packed.

    Args:
        event: What happens.
        once: A file that is created before it happens once; None on ranks to which it does not happen.
        gone: The numbers of samples that are skipped.
    """

    def __init__(self, event: Event, once: Path | None, gone: frozenset[int]) -> None:
        super().__init__()
        self.event, self.once, self.gone = event, once, gone

    def encode_sample(self, sample: TextSample) -> TextSample:
        number = int(sample.__key__[-5:])
        if number in self.gone:
            raise SkipSample
        if not self.event.needs_workers or get_worker_info() is not None:
            if self.event.at_key is not None and self.event.at_key[0] == number:
                self.event.at_key[1]()
            if self.event.at_sample is not None and self.once is not None and not self.once.exists():
                self.once.touch()
                self.event.at_sample()
        return sample

    def select_samples_to_pack(self, samples: list[TextSample]) -> list[list[TextSample]]:
        return [samples[start : start + 3] for start in range(0, len(samples), 3)]

    def pack_selected_samples(self, samples: list[TextSample]) -> TextSample:
        return TextSample.derive_from(samples[0], __key__=" ".join(one.__key__ for one in samples), text="")


# --------------------------------------------------------------------------------------------------------------- ranks


def _loader_of(job: Job, rank: int) -> SavableDataLoader[Any]:
    event = EVENTS[job.event]
    once = job.folder / "once" if rank == job.rank else None
    build = {"batch_size": job.batch_size, "pad_ranks": False} | event.build
    kind, small = build.pop("kind", "val"), build.pop("small", False)
    build.pop("restores", None)
    gone = build.pop("gone", frozenset())
    if build.pop("gone_of_rank", False):
        places = range(SAMPLES)
        gone = frozenset(FIRST + place for place in places if place // job.batch_size % RANKS == job.rank)
    options: dict[str, Any] = {
        "worker_config": WorkerConfig(rank=rank, world_size=RANKS, num_workers=job.workers, lanes=8),
        "task_encoder": Encoder(event, once, gone),
    }
    if kind == "train":
        build.pop("pad_ranks")
        options |= {"shuffle_buffer_size": 20, "max_samples_per_sequence": 5}
    path = job.small if small else job.data
    dataset = (get_train_dataset if kind == "train" else get_val_dataset)(path, **options, **build)
    return get_savable_loader(dataset, worker_type=job.worker_type, **event.options)


def _passes(job: Job, rank: int) -> Iterator[tuple[SavableDataLoader[Any], Iterator[Any]]]:
    """Yield a loader and the iteration of a pass, twice; the second one may be of a restored loader."""
    loader = _loader_of(job, rank)
    yield loader, iter(loader)
    if EVENTS[job.event].build.get("restores"):
        *_, last = islice(loader, len(loader) - 1)
        assert is_padding(last)
        saved = loader.save_state_rank()
        loader.close()
        loader = _loader_of(job, rank)
        loader.restore_state_rank(saved)
    yield loader, iter(loader)
    loader.close()


def _run_rank(job: Job, rank: int, report: dict[str, Any]) -> None:
    import torch
    from torch import distributed

    store = f"file://{job.folder / 'meeting'}"
    distributed.init_process_group(
        "gloo", init_method=store, rank=rank, world_size=RANKS, timeout=timedelta(seconds=GROUP_TIMEOUT_S)
    )
    event, step = EVENTS[job.event], 0
    for loader, batches in _passes(job, rank):
        numbers: list[int] = []
        padding = 0
        while True:
            if rank == job.rank and event.at_step is not None and step == job.step:
                (job.folder / "once").touch()
                event.at_step(loader)
            began = time.monotonic()
            batch = next(batches, None)
            if batch is None:
                break
            padding += is_padding(batch)
            keys = [key for pack in batch.__key__ for key in pack.split(" ")]
            numbers += [int(key[-5:]) for key in keys]
            distributed.all_reduce(torch.tensor([len(keys)]))
            report["longest_s"] = max(report["longest_s"], time.monotonic() - began)
            step += 1
        report["steps"].append(step)
        report["padding"].append(padding)
        report["numbers"].append(numbers)
        report["replaced"] = loader.save_state_rank().get("worker_restarts", 0)
    distributed.barrier()
    distributed.destroy_process_group()


def _main(job: Job, rank: int) -> None:
    os.setpgid(0, 0)
    report: dict[str, Any] = {"steps": [], "padding": [], "numbers": [], "longest_s": 0.0, "replaced": 0, "error": None}
    began = time.monotonic()
    try:
        _run_rank(job, rank, report)
    except BaseException as error:
        report["error"] = f"{type(error).__name__}: {error}"
        raise
    finally:
        report["seconds"] = time.monotonic() - began
        (job.folder / f"{rank}.json").write_text(json.dumps(report))


# ---------------------------------------------------------------------------------------------------------------- jobs


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Results of the ranks of a job.

    Attributes:
        hung: The ranks that had not ended at the limit, by number.
        reports: What the ranks wrote; None for one that was killed.
        seconds: How long the job took.
    """

    hung: tuple[int, ...]
    reports: tuple[dict[str, Any] | None, ...]
    seconds: float

    def fault(self, job: Job) -> str:
        """Return what is wrong; empty if each rank did what its event allows."""
        event = EVENTS[job.event]
        if self.hung:
            return f"ranks {list(self.hung)} hang"
        if (event.at_sample or event.at_step) and not (job.folder / "once").exists():
            return "nothing happened"
        found = [report for report in self.reports if report is not None]
        errors = [report["error"] for report in found]
        if event.ends is not None:
            return self._wrong_error(job, *event.ends)
        if len(found) < RANKS or any(errors):
            return f"a rank failed: {errors}"
        if any(report["steps"] != found[0]["steps"] for report in found):
            return f"the ranks made unequal numbers of steps: {[report['steps'] for report in found]}"
        if event.replaces is not None and any(report["replaced"] for report in found) != event.replaces:
            return f"workers were replaced: {[report['replaced'] for report in found]}"
        if event.build.get("restores") and any(last != first + 1 for first, last in _steps(found)):
            return f"the restored pass had not one step: {_steps(found)}"
        return self._lost(event, found)

    def _wrong_error(self, job: Job, own: str, others: str) -> str:
        for rank, report in enumerate(self.reports):
            error = "" if report is None else str(report["error"] or "")
            expected = own if rank == job.rank else others
            if not re.search(expected, error):
                return f"rank {rank} ended with the error {error!r}, expected {expected!r}"
        return ""

    def _lost(self, event: Event, found: list[dict[str, Any]]) -> str:
        if -1 in event.lost:  # some, as even_ranks drops them
            return ""
        samples = range(3, 5) if event.build.get("small") else range(FIRST, FIRST + SAMPLES)
        passes = zip(*(report["numbers"] for report in found), strict=True)
        for number, by_rank in enumerate(passes):
            came = sorted(sample for numbers in by_rank for sample in numbers)
            if event.build.get("restores") and number:
                continue  # the second pass began before its state was saved
            if came != [sample for sample in samples if sample not in event.lost]:
                return f"pass {number} had the samples {came}"
        return ""


def _steps(reports: list[dict[str, Any]]) -> list[list[int]]:
    return [report["steps"] for report in reports]


def run_job(job: Job, *, limit_s: float = 60) -> Outcome:
    """Run a job; kill what has not ended after ``limit_s``."""
    _contexts.set_forkserver_preload(["tests.e2e.no_hang_jobs", "torch.distributed"])
    began = time.monotonic()
    ranks = [_contexts.Process(target=_main, args=(job, rank)) for rank in range(RANKS)]
    for process in ranks:
        process.start()
    for number, process in enumerate(ranks):
        if not (job.event == "rank stopped" and number == job.rank):
            process.join(max(0.0, began + limit_s - time.monotonic()))
    hung = []
    for number, process in enumerate(ranks):
        if process.is_alive():
            if not (job.event == "rank stopped" and number == job.rank):
                hung.append(number)
            assert process.pid is not None
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
    files = [job.folder / f"{rank}.json" for rank in range(RANKS)]
    reports = tuple(json.loads(file.read_text()) if file.exists() else None for file in files)
    return Outcome(hung=tuple(hung), reports=reports, seconds=time.monotonic() - began)
