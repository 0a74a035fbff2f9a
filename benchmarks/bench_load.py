"""Measure loading against megatron-energon and four other libraries, and print a table.

usage: python benchmarks/bench_load.py [--peer-bin FOLDER] [--other-bin FOLDER] [--work-folder FOLDER]
           [--only ROW]… [--library NAME]… [--rounds N] [--json FILE]

Each measurement runs in a separate process, on the same samples with a warm cache. The libraries take turns, and
figures are the median of three rounds. Each process checks that it received full batches of real samples. A library
without the feature of a row has no figure there. If a process fails, its output is printed.

The benchmark needs 2 GB of disk, and 4 GiB of memory for the buffers of the other libraries.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench_commands import alone_in
from load_data import SIZES, make_loading_dataset
from load_rows import LIBRARIES, OURS, OVERHEAD, PEER, ROWS, Figures, Job, Row
from processes import CommandFailedError, run
from report import machine_facts, print_table

HERE = Path(__file__).parent
SCRIPTS = {
    OURS: ("load_energon.py", "--library", "loader"),
    PEER: ("load_energon.py", "--library", "megatron.energon"),
    "webdataset": ("load_webdataset.py",),
    "mosaicml-streaming": ("load_streaming.py",),
    "litdata": ("load_litdata.py",),
    "lancedb": ("load_lancedb.py",),
}
CONVERTING = ("mosaicml-streaming", "litdata", "lancedb")  # these load only their own formats


@dataclass(slots=True, kw_only=True)
class Bench:
    """The folders of the datasets and the environments.

    Args:
        folder: The folder for the datasets.
        peer_bin: The ``bin`` folder of the environment with megatron-energon.
        other_bin: The ``bin`` folder of the environment with the other libraries.
    """

    folder: Path
    peer_bin: Path
    other_bin: Path

    def make_data(self, libraries: Iterable[str]) -> None:
        for kind in SIZES:
            make_loading_dataset(kind, self.folder / kind, Path(sys.executable).with_name("energon"))
            for library in CONVERTING:
                if library in libraries:
                    run(self.command(library, "convert", kind))
        if "litdata" in libraries:
            run([*self.command("litdata", "convert", "json"), "--stored-json"])

    def measure(self, job: Job) -> Figures:
        if job.library == OVERHEAD:
            command: list[str | Path] = [sys.executable, HERE / "load_overhead.py", self.folder / "json"]
        else:
            command = [*self.command(job.library, job.task, job.kind), *job.options]
        if job.state:
            command += ["--state", self.folder / f"{job.state}-{job.library}"]
        figures: Figures = json.loads(run(command).stdout.splitlines()[-1])
        return figures

    def command(self, library: str, task: str, kind: str) -> list[str | Path]:
        script, *options = SCRIPTS[library]
        return [self._python(library), HERE / script, task, kind, self.folder / kind, *options]

    def _python(self, library: str) -> Path:
        if library == OURS:
            return Path(sys.executable)
        return (self.peer_bin if library == PEER else self.other_bin) / "python"


@dataclass(slots=True, kw_only=True)
class Results:
    """The figures of all rounds, and the failures."""

    figures: dict[Job, list[Figures]] = field(default_factory=dict)
    failures: dict[Job, str] = field(default_factory=dict)

    def medians(self) -> dict[Job, Figures]:
        return {
            job: {figure: statistics.median(one[figure] for one in runs) for figure in runs[0]}
            for job, runs in self.figures.items()
        }


def measure(bench: Bench, rows: Iterable[Row], libraries: Iterable[str], rounds: int) -> Results:
    """Run the jobs of the rows once per round; skip a job after a failure."""
    results = Results()
    wanted = dict.fromkeys(job for row in rows for job in row.jobs if job.library in {*libraries, OVERHEAD})
    for number in range(rounds):
        for job in wanted:
            if job in results.failures:
                continue
            try:
                figures = bench.measure(job)
            except CommandFailedError as error:
                results.failures[job] = str(error)
                print(f"round {number + 1}, {job}: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
            else:
                results.figures.setdefault(job, []).append(figures)
                shown = ", ".join(f"{figure} {value:,.3f}" for figure, value in figures.items())
                print(f"round {number + 1}, {job}: {shown}", file=sys.stderr, flush=True)
    return results


def table(rows: Iterable[Row], results: Results) -> list[list[str]]:
    """Return the cells of the table, with the headings first."""
    cells = [["work", *LIBRARIES, "result", "to reach", "reached"]]
    medians = results.medians()
    for row in rows:
        verdict = row.judge(medians)
        shown = [verdict.figures.get(library, "–") for library in LIBRARIES]
        reached = {True: "yes", False: "no", None: "–"}[verdict.met]
        cells.append([row.work, *shown, verdict.result, row.target, reached])
    return cells


def overhead_table(medians: Mapping[Job, Figures]) -> list[list[str]]:
    """Return the cells of the table with the time of a sample in each stage."""
    for job, figures in medians.items():
        if job.library == OVERHEAD:
            return [["step", "µs a sample"], *([step, f"{value:.2f}"] for step, value in figures.items())]
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-bin", type=Path, default=Path(".venv-peer/bin"))
    parser.add_argument("--other-bin", type=Path, default=Path(".venv-loaders/bin"))
    parser.add_argument("--work-folder", type=Path, default=Path("build/bench"))
    parser.add_argument("--only", action="append", choices=ROWS, help="only this row; repeatable")
    parser.add_argument("--library", action="append", choices=LIBRARIES, help="only this library; repeatable")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures of all rounds to this file")
    arguments = parser.parse_args()

    # Installed programs have compiled modules. With this variable, ours would be recompiled at each start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    folder = arguments.work_folder.absolute() / "loading"
    with alone_in(folder):
        return compare(
            Bench(folder=folder, peer_bin=arguments.peer_bin, other_bin=arguments.other_bin),
            [row for name, row in ROWS.items() if not arguments.only or name in arguments.only],
            arguments,
        )


def compare(bench: Bench, rows: list[Row], arguments: argparse.Namespace) -> int:
    """Measure and print the requested rows; return 0 if all processes succeeded."""
    libraries = arguments.library or list(LIBRARIES)
    bench.make_data(libraries)
    facts = machine_facts(Path(sys.executable).with_name("energon"))
    results = measure(bench, rows, libraries, arguments.rounds)
    cells = table(rows, results)
    print(" · ".join(f"{name}: {value}" for name, value in facts.items()))
    print_table(cells)
    if overhead := overhead_table(results.medians()):
        print()
        print_table(overhead)
    for job, failure in results.failures.items():
        print("", job, failure, sep="\n")
    if arguments.json:
        figures = {str(job): runs for job, runs in results.figures.items()}
        failures = {str(job): text for job, text in results.failures.items()}
        document = {"machine": facts, "table": cells, "figures": figures, "failures": failures}
        arguments.json.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
