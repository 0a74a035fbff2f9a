"""Measure the memory of the process that runs `energon map` over many samples, and of the one that merges shares.

usage: python benchmarks/bench_map_memory.py [--samples N] [--workers N] [--forms number,text,vector,filter]

The samples are lines of prepared JSONL files. They are not read, and no function is called with them: the workers make
the values of a task out of the numbers of its samples, and store them in the journal as every map does. All that the
measured process does is real: it deals the tasks, follows their results, and writes the column or filter.

Each measurement is a process of its own. Its peak is `VmHWM`, with the modules and the mapped pages of files.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from report import machine_facts, print_table

from loader import open_dataset
from loader.dataset.opening import folder_at
from loader.engine import Engine, Share, ShareDone
from loader.format.columns.column_files import open_column
from loader.format.dataset_ref import DatasetRef
from loader.mapping import MapRequest, named_function, run_map, whole_dataset
from loader.mapping.outputs import ToColumns, ToFilter
from loader.mapping.tasks import MapTask, TaskFailures, TaskResult, Values
from loader.mapping.values import piece_of
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare

GOAL_MIB = 500
FORMS = ("number", "text", "vector", "filter")
VECTOR_LENGTH = 8
_FILES = 20
_LINES_AT_ONCE = 100_000
_SHARES = 2


class MadeColumn(ToColumns):
    """A column whose values are made of the numbers of samples."""

    def collect(self, task: MapTask, values: Values, failures: TaskFailures) -> TaskResult:  # noqa: ARG002
        [form] = self.names
        made = [_value(form, sample) for sample in range(task.start, task.stop)]
        piece = piece_of(made, task.start, column=form, at=self.path, key=failures.key)
        return TaskResult(columns={form: piece})


class MadeFilter(ToFilter):
    """A filter that keeps samples with an even number."""

    def collect(self, task: MapTask, values: Values, failures: TaskFailures) -> TaskResult:  # noqa: ARG002
        return TaskResult(kept=(np.arange(task.start, task.stop) % 2 == 0).tobytes())


def _value(form: str, sample: int) -> Any:
    if form == "vector":
        return np.full(VECTOR_LENGTH, sample % 1000, np.float16)
    return f"text {sample}" if form == "text" else sample


def write_lines(folder: Path, samples: int) -> Path:
    """Write a prepared dataset of short lines."""
    folder.mkdir(parents=True)
    for file in range(_FILES):
        stop = samples * (file + 1) // _FILES
        with open(folder / f"lines_{file:03d}.jsonl", "w") as lines:
            for start in range(samples * file // _FILES, stop, _LINES_AT_ONCE):
                some = range(start, min(start + _LINES_AT_ONCE, stop))
                lines.write("".join(f'{{"n":{sample}}}\n' for sample in some))
    run_prepare(PreparePlan(path=str(folder), split=SplitRequest(ratio={"train": 1.0})))
    return folder


def nothing(sample: Any) -> None:
    """Return nothing; it is not called."""


def request_of(folder: Path, form: str) -> MapRequest:
    path = str(folder)
    output = MadeFilter(name=form, path=path) if form == "filter" else MadeColumn(names=(form,), path=path)
    return MapRequest(
        source=whole_dataset(DatasetRef(path)),
        function=named_function(f"{__file__}:nothing"),
        output=output,
        target=f"made-{form}",
    )


def run_shares(folder: Path, form: str) -> None:
    """Run all shares of a map, so that a merge is left."""
    for share in range(1, _SHARES + 1):
        try:
            run_map(replace(request_of(folder, form), engine=Engine(share=Share(share, _SHARES))))
        except ShareDone:
            continue


def merge(folder: Path, form: str) -> None:
    run_map(replace(request_of(folder, form), engine=Engine(merge=True)))


def run_in_processes(folder: Path, form: str, workers: int) -> None:
    run_map(replace(request_of(folder, form), engine=Engine(workers=workers, forks=True)))


def check(folder: Path, form: str) -> None:
    """Compare some values with the numbers of their samples."""
    if form == "filter":
        kept = len(open_dataset(folder).select(filter=form))
        if kept != (len(folder_at(folder)) + 1) // 2:
            raise RuntimeError(f"expected every other sample, found {kept:,}")
        return
    dataset = folder_at(folder)
    column = open_column(dataset.storage, dataset.index, form)
    for sample in (0, len(dataset) // 2, len(dataset) - 1):
        value, expected = column.value(sample), _value(form, sample)
        if not np.array_equal(value, expected):
            raise RuntimeError(f"expected {expected} for sample {sample}, found {value}")


def memory_mib(kind: str) -> float:
    """Return memory of this process: ``VmRSS``, or the peak ``VmHWM``, which a new program does not inherit."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{kind}:")[2].split()[0]) / 1024


def measure(what: str, folder: Path, form: str, workers: int) -> None:
    """Do one thing, and print memory before, its peak, and the seconds."""
    folder_at(folder).index.shards  # noqa: B018 - is read at its first use
    before, started = memory_mib("VmRSS"), time.perf_counter()
    if what == "shares":
        run_shares(folder, form)
    elif what == "merge":
        merge(folder, form)
    else:
        run_in_processes(folder, form, workers)
    print(f"{before:.0f} {memory_mib('VmHWM'):.0f} {time.perf_counter() - started:.1f}")


def run(what: str, folder: Path, form: str, workers: int) -> list[str]:
    command = [sys.executable, __file__, "--measure", what, str(folder), form, "--workers", str(workers)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-3:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--measure", nargs=3, metavar=("WHAT", "FOLDER", "FORM"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        what, folder, form = options.measure
        measure(what, Path(folder), form, options.workers)
        return
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_lines(Path(temporary) / "lines", options.samples)
        for form in options.forms.split(","):
            for what in ("processes", "merge"):
                if what == "merge":
                    run("shares", folder, form, options.workers)
                before, peak, seconds = run(what, folder, form, options.workers)
                check(folder, form)
                rows.append([form, what, f"{options.samples:,}", f"{before} MiB", f"{peak} MiB", f"{seconds} s"])
    print(machine_facts())
    print_table([["values", "run", "samples", "before", "peak", "time"], *rows])
    print(f"to reach: a peak of at most {GOAL_MIB} MiB")


if __name__ == "__main__":
    main()
