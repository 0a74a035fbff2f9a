"""Measure prepare, info, lint and opening an index against megatron-energon, and print a table.

usage: python benchmarks/bench_prepare.py [--peer-bin FOLDER] [--work-folder FOLDER] [--only ROW]… [--quick]

Both tools run in turn, as whole processes, on the same files with a warm cache. Figures are the median of three rounds.
Each prepared dataset is checked for all its samples. If a command fails, its output is printed.
The 10M rows need 13 GB of disk, and memory to cache the files.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench_commands import Bench, CommandFailedError, alone_in
from report import machine_facts, print_table

MIB = 1024 * 1024
Figures = Mapping[str, float]  # the results of one run, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A measurement that runs once per round."""

    measure: Callable[[Bench], Figures]
    rounds: int | None = None  # None: all requested rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the table: its measurements and its target."""

    work: str
    target: str
    needs: tuple[str, ...]
    judge: Callable[[Mapping[str, Figures]], Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a row, computed from the medians."""

    ours: str
    peer: str = "–"
    result: str
    met: bool


# In the order of a round. Measurements of one dataset are adjacent, so that its files stay cached.
MEASUREMENTS = {
    "compat, ours": Measurement(measure=lambda bench: bench.time_prepare("tiny", "ours, compat")),
    "again, ours": Measurement(measure=lambda bench: bench.time_prepare_again()),
    "no compat, ours": Measurement(measure=lambda bench: bench.time_prepare("tiny", "ours, no compat")),
    "compat, peer": Measurement(measure=lambda bench: bench.time_prepare("tiny", "peer")),
    "help, ours": Measurement(measure=lambda bench: bench.time_start(bench.own, "--help")),
    "help, peer": Measurement(measure=lambda bench: bench.time_start(bench.peer, "--help")),
    "info, ours": Measurement(measure=lambda bench: bench.time_info(bench.own)),
    "info, peer": Measurement(measure=lambda bench: bench.time_info(bench.peer)),
    "memory at 1M, ours": Measurement(measure=lambda bench: bench.memory_of_prepare("tiny", "ours, compat")),
    "memory at 1M, peer": Measurement(measure=lambda bench: bench.memory_of_prepare("tiny", "peer"), rounds=1),
    "open 1M, ours": Measurement(measure=lambda bench: bench.time_open("tiny")),
    "images, ours": Measurement(measure=lambda bench: bench.time_prepare("images", "ours, typed")),
    "images, peer": Measurement(measure=lambda bench: bench.time_prepare("images", "peer, typed")),
    "lint, ours": Measurement(
        measure=lambda bench: bench.time_lint(bench.own, "--level", "decode", "--parallel", "2"),
    ),
    "lint, peer": Measurement(measure=lambda bench: bench.time_lint(bench.peer, "--parallel", "2")),
    "memory at 10M, ours": Measurement(
        measure=lambda bench: bench.memory_of_prepare("hollow", "ours, compat"), rounds=1
    ),
    "open 10M, ours": Measurement(measure=lambda bench: bench.time_open("hollow")),
}


# ------------------------------------------------------------------------------------------------------------- judges


def times_faster(ours: str, peer: str, factor: float) -> Callable[[Mapping[str, Figures]], Verdict]:
    """Return a judge that requires a ratio of two durations."""

    def judge(medians: Mapping[str, Figures]) -> Verdict:
        mine, other = medians[ours]["seconds"], medians[peer]["seconds"]
        return Verdict(
            ours=f"{mine:.2f} s", peer=f"{other:.2f} s", result=f"{other / mine:.1f}×", met=other / mine >= factor
        )

    return judge


def at_most(ours: str, peer: str, limit_s: float) -> Callable[[Mapping[str, Figures]], Verdict]:
    """Return a judge that requires a maximum duration."""

    def judge(medians: Mapping[str, Figures]) -> Verdict:
        mine, other = medians[ours]["seconds"], medians[peer]["seconds"]
        return Verdict(ours=f"{mine:.3f} s", peer=f"{other:.2f} s", result=f"{other / mine:.0f}×", met=mine <= limit_s)

    return judge


def judge_again(medians: Mapping[str, Figures]) -> Verdict:
    again, full = medians["again, ours"]["seconds"], medians["compat, ours"]["seconds"]
    return Verdict(ours=f"{again:.2f} s of {full:.2f} s", result=f"{again / full:.0%}", met=again <= 0.25 * full)


def judge_memory(medians: Mapping[str, Figures]) -> Verdict:
    mine, other = medians["memory at 1M, ours"], medians["memory at 1M, peer"]
    return Verdict(
        ours=f"{mine['bytes'] / MIB:.0f} MiB",
        peer=f"{other['bytes'] / MIB:.0f} MiB",
        result=f"{mine['private bytes'] / MIB:.0f} MiB without cached files",
        met=mine["bytes"] <= 500 * MIB,
    )


def judge_memory_growth(medians: Mapping[str, Figures]) -> Verdict:
    small, large = medians["memory at 1M, ours"], medians["memory at 10M, ours"]
    growth = large["bytes"] / small["bytes"]
    private = large["private bytes"] / small["private bytes"]
    return Verdict(
        ours=f"{large['bytes'] / MIB:.0f} MiB",
        result=f"{growth:.2f}× of 1M ({private:.2f}× without cached files)",
        met=growth <= 1.2,
    )


def judge_open(medians: Mapping[str, Figures]) -> Verdict:
    small, large = medians["open 1M, ours"], medians["open 10M, ours"]
    return Verdict(
        ours=f"{small['seconds'] * 1e3:.1f} ms; {large['seconds'] * 1e3:.1f} ms at 10M",
        result=f"first look-up by key {small['first look-up'] * 1e3:.1f} ms; {large['first look-up'] * 1e3:.1f} ms",
        # 10 % and half a millisecond are the noise of starting Python.
        met=small["seconds"] <= 0.020 and large["seconds"] <= 1.1 * small["seconds"] + 0.0005,
    )


ROWS = {
    "compat": Row(
        work="prepare 1M tiny samples, 25 shards, 2 workers, `--compat`",
        target="≥ 8×",
        needs=("compat, ours", "compat, peer"),
        judge=times_faster("compat, ours", "compat, peer", 8),
    ),
    "no-compat": Row(
        work="the same, `--no-compat`",
        target="≥ 20×",
        needs=("no compat, ours", "compat, peer"),
        judge=times_faster("no compat, ours", "compat, peer", 20),
    ),
    "images": Row(
        work="prepare 20,000 image samples, 3 parts each",
        target="≥ 4×",
        needs=("images, ours", "images, peer"),
        judge=times_faster("images, ours", "images, peer", 4),
    ),
    "again": Row(
        work="re-prepare with 1 of 25 shards changed, compat",
        target="≤ 25 % of a full one",
        needs=("compat, ours", "again, ours"),
        judge=judge_again,
    ),
    "help": Row(
        work="`energon --help`",
        target="≤ 0.25 s",
        needs=("help, ours", "help, peer"),
        judge=at_most("help, ours", "help, peer", 0.25),
    ),
    "info": Row(
        work="`energon info`, 1M samples",
        target="≤ 0.5 s",
        needs=("info, ours", "info, peer"),
        judge=at_most("info, ours", "info, peer", 0.5),
    ),
    "memory": Row(
        work="peak memory of prepare at 1M, all processes",
        target="≤ 500 MiB",
        needs=("memory at 1M, ours", "memory at 1M, peer"),
        judge=judge_memory,
    ),
    "memory-10m": Row(
        work="the same at 10M",
        target="≤ 1.2× of 1M",
        needs=("memory at 1M, ours", "memory at 10M, ours"),
        judge=judge_memory_growth,
    ),
    "open": Row(
        work="opening the index of 1M and of 10M samples",
        target="≤ 20 ms, no more at 10M",
        needs=("open 1M, ours", "open 10M, ours"),
        judge=judge_open,
    ),
    "lint": Row(
        work="`lint --level decode` of the images, 2 workers",
        target="≥ 2.5×",
        needs=("lint, ours", "lint, peer"),
        judge=times_faster("lint, ours", "lint, peer", 2.5),
    ),
}


# ------------------------------------------------------------------------------------------------------------ running


@dataclass(slots=True, kw_only=True)
class Results:
    """The figures of all rounds, and the failures."""

    figures: dict[str, list[Figures]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def medians(self) -> dict[str, Figures]:
        return {
            name: {figure: statistics.median(run[figure] for run in runs) for figure in runs[0]}
            for name, runs in self.figures.items()
        }


def measure(bench: Bench, names: Iterable[str], rounds: int) -> Results:
    """Run all measurements once per round; skip a measurement after a failure."""
    results = Results()
    wanted = [name for name in MEASUREMENTS if name in set(names)]
    for number in range(rounds):
        for name in wanted:
            measurement = MEASUREMENTS[name]
            if name in results.failures or number >= (measurement.rounds or rounds):
                continue
            try:
                figures = measurement.measure(bench)
            except CommandFailedError as error:
                results.failures[name] = str(error)
                print(f"round {number + 1}, {name}: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
            else:
                results.figures.setdefault(name, []).append(figures)
                shown = ", ".join(f"{figure} {value:,.3f}" for figure, value in figures.items())
                print(f"round {number + 1}, {name}: {shown}", file=sys.stderr, flush=True)
    return results


def table(rows: Mapping[str, Row], results: Results) -> list[list[str]]:
    """Return the cells of the table, with the headings first."""
    cells = [["work", "energon-toolkit", "megatron-energon", "result", "to reach", "reached"]]
    medians = results.medians()
    for row in rows.values():
        failed = [name for name in row.needs if name in results.failures]
        if failed:
            cells.append([row.work, "–", "–", f"failed: {', '.join(failed)}", row.target, "no"])
        else:
            verdict = row.judge(medians)
            reached = "yes" if verdict.met else "no"
            cells.append([row.work, verdict.ours, verdict.peer, verdict.result, row.target, reached])
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-bin", type=Path, default=Path(os.environ.get("ENERGON_PEER_BIN", ".venv-peer/bin")))
    parser.add_argument("--work-folder", type=Path, default=Path("build/bench"))
    parser.add_argument("--only", action="append", choices=ROWS, help="only this row; repeatable")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--quick", action="store_true", help="use a twentieth of the samples, to test the benchmark itself"
    )
    parser.add_argument("--json", type=Path, help="write the figures of all rounds to this file")
    arguments = parser.parse_args()

    # Installed programs have compiled modules. With this variable, ours would be recompiled at each start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    bench = Bench(folder=arguments.work_folder, peer_bin=arguments.peer_bin, quick=arguments.quick)
    with alone_in(arguments.work_folder):
        return compare(bench, arguments)


def compare(bench: Bench, arguments: argparse.Namespace) -> int:
    """Measure and print the requested rows; return 0 if all commands succeeded."""
    rows = {name: row for name, row in ROWS.items() if not arguments.only or name in arguments.only}
    facts = machine_facts(bench.own, bench.peer)
    results = measure(bench, {name for row in rows.values() for name in row.needs}, arguments.rounds)
    cells = table(rows, results)
    print(" · ".join(f"{name}: {value}" for name, value in facts.items()))
    if arguments.quick:
        print("quick: a twentieth of the samples, so the figures are meaningless")
    print_table(cells)
    for failure in dict.fromkeys(results.failures.values()):
        print("", *(name for name, other in results.failures.items() if other == failure), failure, sep="\n")
    if arguments.json:
        document = {"machine": facts, "table": cells, "figures": results.figures, "failures": results.failures}
        arguments.json.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
