"""Run jobs of four ranks, each with an ``all_reduce`` for each micro-batch and a random event: does any rank hang?

    python -m benchmarks.bench_no_hang             # 100 jobs
    python -m benchmarks.bench_no_hang --jobs 10

Events happen to a random rank at a random step; numbers of workers and batch sizes are random, too. A job hangs if a
rank has not ended after ``--limit`` seconds. Prints a table of the events, and exits with 1 if a job hung or did not
end as its event allows.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.e2e.no_hang_jobs import EVENTS, GROUP_TIMEOUT_S, WORKER_TIMEOUT_S, Job, Outcome, run_job
from tests.e2e.text_dataset import write_texts

LIMIT_S = 90.0


def random_job(chosen: random.Random, *, event: str, data: Path, small: Path, folder: Path) -> Job:
    """Return a job with random settings."""
    needs_workers = EVENTS[event].needs_workers
    return Job(
        event=event,
        data=data,
        small=small,
        folder=folder,
        rank=chosen.randrange(4),
        step=chosen.randrange(1, 4),
        batch_size=chosen.choice([2, 4] if {"gone_of_rank", "restores"} & EVENTS[event].build.keys() else [2, 4, 8]),
        workers=chosen.choice([1, 2] if needs_workers else [0, 1, 2]),
        worker_type="fork" if needs_workers else chosen.choice(["fork", "thread"]),
    )


def row(event: str, ended: list[Outcome]) -> str:
    """Return a row of the table."""
    reports = [report for outcome in ended for report in outcome.reports if report is not None]
    expected = "errors on all ranks" if EVENTS[event].ends else "equal steps"
    hung = sum(bool(outcome.hung) for outcome in ended)
    pause_s = max((report["longest_s"] for report in reports), default=0.0)
    job_s = max(outcome.seconds for outcome in ended)
    return f"{event:34} {len(ended):4} {expected:20} {hung:5} {pause_s:14.1f} {job_s:13.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds after which a job counts as hanging")
    arguments = parser.parse_args()
    chosen = random.Random(arguments.seed)
    ended: defaultdict[str, list[Outcome]] = defaultdict(list)
    faults = []
    with tempfile.TemporaryDirectory() as name, Path(os.devnull).open("w") as nothing:
        folder = Path(name)
        data = write_texts(folder / "data")
        small = write_texts(folder / "small", train=(3,), val=(2,))
        errors, here = os.dup(2), nothing.fileno()
        os.dup2(here, 2)  # the tracebacks of ranks that are to fail
        for number in range(arguments.jobs):
            own = folder / str(number)
            own.mkdir()
            job = random_job(chosen, event=chosen.choice([*EVENTS]), data=data, small=small, folder=own)
            outcome = run_job(job, limit_s=arguments.limit)
            ended[job.event].append(outcome)
            if fault := outcome.fault(job):
                faults.append(f"job {number}, {job}: {fault}")
        os.dup2(errors, 2)
    print(f"{'event':34} jobs {'expected':20} hangs {'longest step s':>14} {'longest job s':>13}")
    for event in EVENTS:
        if event in ended:
            print(row(event, ended[event]))
    hung = sum(bool(outcome.hung) for outcomes in ended.values() for outcome in outcomes)
    print(f"{hung} of {arguments.jobs} jobs hung; {len(faults)} ended in another way than expected")
    print(f"timeouts: {WORKER_TIMEOUT_S:g} s of a worker, {GROUP_TIMEOUT_S:g} s of the process group")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
