"""Measure the cost of weights that change during a run, next to a blend of constant weights.

usage: python benchmarks/bench_weight_schedules.py --work-folder build/bench [--rounds N]

Whole runs without worker processes over crude samples of 150 bytes of json, which measure only the loader. The blends
of one number of datasets load a few batches of each in turn, so that other load on the machine affects all equally.
Figures are CPU time, the minimum of many stretches. The last rows are the time to open a run, and to make its first
micro-batch of each lane far behind the changes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
import yaml
from bench_mixes import BATCH_SIZE, LANES, Decoded, make_mix, stretch, train_dataset
from report import machine_facts, print_table

import loader

LEAVES = (2, 200)
WARM_UP = LANES * 70  # micro-batches: past the small first chunks, with all shards open
CHANGES = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work-folder", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    facts = machine_facts()
    print(f"{facts['date']}, {facts['cores']} cores of {facts['processor']}, Python {facts['python']}\n")
    rows = [["µs a sample", *(f"{leaves} datasets" for leaves in LEAVES), *(f"{leaves}: ratio" for leaves in LEAVES)]]
    opening = [["ms", *(f"{leaves} datasets" for leaves in LEAVES)]]
    costs, opened = {}, {}
    for leaves in LEAVES:
        mixes = scheduled_mixes(make_mix(arguments.work_folder / f"mix_{leaves}", leaves))
        costs[leaves] = blend_costs(mixes, arguments.rounds)
        opened[leaves] = {name: opening_costs(mix) for name, mix in mixes.items()}
    for name, plain in zip(costs[LEAVES[0]], ["constant weights"] * len(costs[LEAVES[0]]), strict=True):
        found = [costs[leaves][name] for leaves in LEAVES]
        ratios = [f"{costs[leaves][name] / costs[leaves][plain]:.2f}×" for leaves in LEAVES]
        rows.append([name, *(f"{cost:.2f}" for cost in found), *ratios])
        for part, text in enumerate(("open and first micro-batch", f"first micro-batches of {LANES} lanes, resumed")):
            opening.append([f"{name}: {text}", *(f"{opened[leaves][name][part]:.0f}" for leaves in LEAVES)])
    print_table(rows)
    print()
    print_table(opening)


def scheduled_mixes(mix: Path) -> dict[str, Path]:
    """Write blends of the same datasets whose weights change at several times."""
    schedules: dict[str, Any] = {
        "one change, behind it": {0: 1, WARM_UP // 2: 3},
        f"{CHANGES} changes, behind them": {
            step * WARM_UP // (CHANGES + 1): 1 + step % 3 for step in range(CHANGES + 1)
        },
        "a change every 1,000 steps": {step: 1 + step // 1000 % 3 for step in range(0, 100_000, 1000)},
        "a linear change of 100,000 steps": {"change": "linear", "at": {0: 1, 100_000: 3}},
    }
    found = {"constant weights": mix}
    for number, (name, schedule) in enumerate(schedules.items()):
        document = yaml.safe_load(mix.read_text())
        document["splits"]["train"]["blend"][0]["weight"] = schedule
        found[name] = mix.with_name(f"scheduled_{number}.yaml")
        found[name].write_text(yaml.safe_dump(document))
    return found


def blend_costs(mixes: dict[str, Path], rounds: int) -> dict[str, float]:
    """Return the microseconds per sample of each mix."""
    batches = {name: iter(loader.get_loader(train_dataset(mix, Decoded))) for name, mix in mixes.items()}
    for some in batches.values():
        for _ in range(WARM_UP):
            next(some)
    least = dict.fromkeys(mixes, float("inf"))
    for _ in range(rounds):
        for name, some in batches.items():
            least[name] = min(least[name], stretch(some))
    return least


def opening_costs(mix: Path) -> tuple[float, float]:
    """Return the milliseconds to open a run and make a micro-batch, and to make one in each lane after a restore."""
    started = time.process_time()
    with loader.get_savable_loader(train_dataset(mix, Decoded)) as run:
        next(iter(run))
        first = time.process_time() - started
        state = run.save_state_rank()
    made = 2 * WARM_UP // LANES
    state["batch"] = made * LANES
    state["lane"] = {str(lane): {"made": made, "0 read": made * BATCH_SIZE} for lane in range(LANES)}
    with loader.get_savable_loader(train_dataset(mix, Decoded)) as run:
        run.restore_state_rank(state)
        started = time.process_time()
        batches = iter(run)
        for _ in range(LANES):
            next(batches)
        return first * 1e3, (time.process_time() - started) * 1e3


if __name__ == "__main__":
    main()
