"""Training scripts on several ranks, started by ``torchrun``: the samples of each rank, and resume on other ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.drawing_pipelines import Data, train
from tests.e2e.text_dataset import write_texts
from tests.e2e.torchrun_training import Job
from tests.elastic_runs import Delivered, Pipeline, assert_same, uninterrupted
from tests.source_tree import ROOT

SCRIPT = Path(__file__).with_name("torchrun_training.py")
LANES = 48  # what each number of ranks here has by default


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("torchrun") / "texts")


@dataclass(frozen=True)
class Rank:
    """Report of a rank."""

    place: dict[str, int]
    delivered: Delivered


def torchrun(ranks: int, job: Job) -> tuple[int, list[Rank]]:
    """Run the script on some ranks; return the exit code and the reports of the ranks."""
    folder = Path(job.folder)
    for old in folder.glob("rank_*.json"):
        old.unlink()
    file = job.write(folder / "job.json")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*launch, SCRIPT, file], capture_output=True, text=True, check=False, env=environment, timeout=120
    )
    if job.kill is None:
        assert done.returncode == 0, done.stderr
    told: list[Any] = [json.loads((folder / f"rank_{rank}.json").read_text()) for rank in range(ranks)]
    return done.returncode, [
        Rank(place=one["place"], delivered={number: bytes.fromhex(data) for number, data in one["delivered"]})
        for one in told
    ]


def joined(ranks: list[Rank]) -> Delivered:
    everything: Delivered = {}
    for rank in ranks:
        assert not everything.keys() & rank.delivered.keys(), "micro-batches came on two ranks"
        everything |= rank.delivered
    return everything


def expected(texts: Path, batches: int) -> Delivered:
    data = Data(texts=texts, more=Path(), crude=Path())
    return uninterrupted(Pipeline(build=partial(train, data), batches=batches, lanes=LANES))


def processes_of(file: Path) -> list[str]:
    """Return the running processes that were started with a file's name."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes()
        except OSError:
            continue  # it has just ended
        if os.fsencode(file) in command:
            found.append(command.replace(b"\0", b" ").decode())
    return found


def test_a_run_whose_rank_was_killed_goes_on_on_other_ranks_from_its_last_state(texts: Path, tmp_path: Path) -> None:
    job = Job(data=str(texts), folder=str(tmp_path), steps=5, save_after=3, tensor_parallel=2, workers=2, kill=1)
    code, ranks = torchrun(4, job)
    assert code != 0
    deadline = time.monotonic() + 20
    while (left := processes_of(tmp_path / "job.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, "processes outlive the run"

    assert [rank.place["data"] for rank in ranks] == [0, 0, 1, 1]
    assert ranks[0].delivered == ranks[1].delivered
    assert ranks[2].delivered == ranks[3].delivered
    delivered = joined([ranks[0], ranks[2]])
    whole = expected(texts, 24)
    assert_same(delivered, {number: whole[number] for number in range(10)}, "on two data-parallel ranks")
    assert sorted(path.name for path in tmp_path.glob("state_*")) == ["state_0.pt", "state_1.pt"]

    going_on = Job(data=str(texts), folder=str(tmp_path), steps=6, save_after=0, workers=1, resume=True, src_rank=1)
    _, ranks = torchrun(3, going_on)
    saved = {number: data for number, data in delivered.items() if number < 6}  # three steps of two ranks
    assert_same(saved | joined(ranks), whole, "on three ranks")
