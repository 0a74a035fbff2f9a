"""Measure planned runs: how equal their steps are, how full packs are, what planning costs, and what training gains.

usage: python benchmarks/bench_balance.py [--data FOLDER] [--only NAME …]

Prints each figure next to the one that was aimed at. ``steps``, ``published`` and ``packers`` simulate: the costs of
samples are drawn, and grouped by the code that groups those of a run. ``training`` trains a small transformer on two
ranks of a process group. ``planning`` and ``command`` take 40 prepared datasets of 2.5 million samples with a column,
hard links of one of them, which are written into the folder (3 GB), or found there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from make_data import Recipe, make_dataset
from processes import run
from report import machine_facts, print_table

from loader.dataset.opening import folder_at
from loader.format.columns.column_files import write_column
from loader.inspect.runs import RunRequest
from loader.inspect.runs.planned_run import PlannedRun
from loader.order import PlannedLane, WindowPlan
from loader.packing import PACKERS, karmarkar_karp
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare

RANKS = 1024
CAPACITY = 8192
SEEDS = 21  # of the published setting, whose single runs differ by some percent

_Floats = npt.NDArray[np.float64]
_Draw = Callable[[np.random.Generator, int], _Floats]
_CRUDE = {"dataset.yaml": "__module__: megatron.energon\n__class__: CrudeWebdataset\n"}
_ENERGON = Path(sys.executable).with_name("energon")


def lengths(mean_of_logarithm: float, most: int = 1024) -> _Draw:
    """Return a function that draws log-normal lengths, shape (n, 1)."""
    return lambda rng, n: np.clip(np.exp(rng.normal(mean_of_logarithm, 1, (n, 1))), 16, most).round()


def two_costs(rng: np.random.Generator, n: int) -> _Floats:
    return np.asarray(np.exp(rng.normal(0, 1, (n, 2))), np.float64)


def two_cut_costs(rng: np.random.Generator, n: int) -> _Floats:
    costs = two_costs(rng, n)
    return np.asarray(np.minimum(costs, 64 * costs.mean(axis=0) / 4))


# ----------------------------------------------------------------------------------------------------- simulated steps


def steps_rows() -> list[list[str]]:
    """Compare 1,024 ranks, each with a window of its own."""
    rows = []
    cases: tuple[tuple[str, _Draw, WindowPlan, str], ...] = (
        ("packs of 8,192", lengths(5), WindowPlan(capacity=(CAPACITY,)), "≤ 1.01"),
        ("16 samples", lengths(5), WindowPlan(group_samples=16), "≤ 1.03"),
        ("two cut costs, 64 samples", two_cut_costs, WindowPlan(group_samples=64), "≤ 1.05 each"),
        ("two uncut costs, 64 samples", two_costs, WindowPlan(group_samples=64), ""),
    )
    for name, draw, plan, wanted in cases:
        steps, largest = simulated(draw, plan)
        ratio, mean = steps.max(axis=0) / steps.mean(axis=0), steps.mean(axis=0)
        found = ", ".join(f"{value:.3f}" for value in ratio.mean(axis=0))
        rows.append([f"max/mean of a step, {name} ({len(ratio)} steps)", found, wanted])
        if name.startswith("two uncut"):
            above = (ratio / np.maximum(largest / mean, 1)).mean(axis=0)
            found = ", ".join(f"{value:.3f}" for value in above)
            rows.append(["the same, divided by the largest sample of the step / mean", found, "≤ 1.05"])
    for mean, draw, wanted in ((850, lengths(6.29, CAPACITY), "≥ 99.5 %"), (270, lengths(5.2), "≥ 99 %")):
        rows.append([f"fill of packs, mean length {mean}; a greedy hook", fills(draw), f"{wanted}; 90–95 %"])
    return rows


def simulated(draw: _Draw, plan: WindowPlan) -> tuple[_Floats, _Floats]:
    """Return the cost of each micro-batch, shape (ranks, steps, k), and the largest sample of each step."""
    rng = np.random.default_rng(0)
    sums, largest = [], []
    for _ in range(RANKS):
        costs = draw(rng, plan.samples)
        groups = plan.groups(costs, key=5)
        counts = np.array([*map(len, groups)])
        ordered, starts = costs[np.concatenate(groups)], np.cumsum(counts) - counts
        sums.append(np.add.reduceat(ordered, starts))
        largest.append(np.maximum.reduceat(ordered, starts))
    shortest = min(map(len, sums))
    return np.stack([row[:shortest] for row in sums]), np.max([row[:shortest] for row in largest], axis=0)


def fills(draw: _Draw) -> str:
    rng, plan = np.random.default_rng(0), WindowPlan(capacity=(CAPACITY,))
    planned, greedy, total = 0, 0, 0.0
    for _ in range(20):
        costs = draw(rng, plan.samples)
        planned += len(plan.groups(costs, key=0))
        for start in range(0, len(costs), 1000):
            greedy += greedy_packs(costs[start : start + 1000, 0].tolist())
        total += float(costs.sum())
    return f"{total / planned / CAPACITY:.2%}; {total / greedy / CAPACITY:.1%}".replace("%", " %")


def greedy_packs(buffer: Sequence[float]) -> int:
    """Return the packs of a hook that fills one pack after another with the next samples of a buffer."""
    packs, room = 1, float(CAPACITY)
    for cost in buffer:
        if cost > room:
            packs, room = packs + 1, float(CAPACITY)
        room -= cost
    return packs


# --------------------------------------------------------------------------------------------------- published setting

SEQUENCES, BATCH, ACCUMULATED = 1600, 8, 2  # on 2 ranks


def published_rows() -> list[list[str]]:
    """Compare orders of 1,600 sequences on two ranks: padded tokens of the slower rank for each real token."""
    plan = WindowPlan(group_samples=BATCH, padded=True).within_epochs(SEQUENCES, 2)
    filled = WindowPlan(capacity=(2048.0,), padded=True).within_epochs(SEQUENCES, 2)
    orders: dict[str, Callable[[np.random.Generator, _Floats], list[list[_Floats]]]] = {
        "random": lambda _, drawn: [np.split(half, len(half) // BATCH) for half in np.split(drawn, 2)],
        "grouped by length": grouped_by_length,
        "balance, padded": lambda _, drawn: [planned(plan, half) for half in np.split(drawn, 2)],
        "batch_cost of 2,048, padded": lambda _, drawn: [planned(filled, half) for half in np.split(drawn, 2)],
    }
    # Draw other sequences for each seed, and compare the orders of the same ones.
    spent: dict[str, list[float]] = {name: [] for name in orders}
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        drawn = lengths(5)(rng, SEQUENCES)[:, 0]
        for name, order in orders.items():
            ranks = order(rng, drawn)
            cost = sums_of_steps([[float(each.max()) * len(each) for each in rank] for rank in ranks]).max(axis=0)
            real = sums_of_steps([[float(each.sum()) for each in rank] for rank in ranks])
            spent[name].append(float(cost.sum() / real.sum()))
    rows = []
    for name, wanted in (
        ("grouped by length", ""),
        ("balance, padded", "≥ 3.1×, more than grouped"),
        ("batch_cost of 2,048, padded", ""),
    ):
        times = [before / after for before, after in zip(spent["random"], spent[name], strict=True)]
        found = f"{statistics.median(times):.2f}× ({min(times):.2f}–{max(times):.2f})"
        rows.append([f"padded tokens, {name}: fewer than random, median of {SEEDS} draws", found, wanted])
    # Without padding, the ranks of a step share its samples.
    for name, samples in (("a dataset of 1,600", SEQUENCES // 2), ("a dataset of 40,000", 20_000)):
        above, own = np.array([above_differences(seed, samples) for seed in range(SEEDS)]).T
        found = f"{np.median(above):+.2%} ({above.min():+.2%} to {above.max():+.2%})".replace("%", " %")
        rows.append([f"tokens without padding next to Karmarkar–Karp, {name}", found, "within 1 %"])
        found = f"{np.median(own):+.2%}".replace("%", " %")
        rows.append(["the same next to the rank that has more tokens in the whole run", found, ""])
    return rows


def planned(plan: WindowPlan, drawn: _Floats) -> list[_Floats]:
    return [drawn[group] for group in plan.groups(drawn[:, None], key=5)]


def grouped_by_length(rng: np.random.Generator, drawn: _Floats) -> list[list[_Floats]]:
    """Group as the sampler of Hugging Face's trainer does: it sorts blocks, and gives each rank every second sample."""
    batch = BATCH * ACCUMULATED
    shuffled, block = rng.permutation(drawn), min(SEQUENCES // (batch * 4), 50) * batch
    ordered = np.concatenate([np.sort(shuffled[at : at + block])[::-1] for at in range(0, SEQUENCES, block)])
    return [np.split(ordered[rank::2], SEQUENCES // 2 // BATCH) for rank in range(2)]


def sums_of_steps(ranks: Sequence[Sequence[float]]) -> _Floats:
    """Return the costs of accumulated micro-batches, shape (ranks, steps)."""
    steps = min(map(len, ranks)) // ACCUMULATED
    whole = np.array([costs[: steps * ACCUMULATED] for costs in ranks], np.float64)
    return np.asarray(whole.reshape(len(ranks), steps, ACCUMULATED).sum(axis=2))


def above_differences(seed: int, samples_of_lane: int) -> tuple[float, float]:
    """Return by how much the slower ranks of 50 steps have more tokens than if each step were divided by differences.

    The second number is what they have above the tokens of one of the ranks in all steps, the larger ones.

    Args:
        samples_of_lane: The share of a lane in an epoch, of which the run reads 800.
    """
    rng, plan = np.random.default_rng(seed), WindowPlan(group_samples=BATCH).within_epochs(samples_of_lane, 1)
    ranks = [planned(plan, lengths(5)(rng, plan.samples)[:, 0])[: SEQUENCES // 2 // BATCH] for _ in range(2)]
    steps = sums_of_steps([[float(each.sum()) for each in rank] for rank in ranks])
    found = float(steps.max(axis=0).sum())
    divided = 0.0
    for start in range(0, len(ranks[0]), ACCUMULATED):
        both = np.concatenate([each for rank in ranks for each in rank[start : start + ACCUMULATED]])
        divided += max(float(both[items].sum()) for items in karmarkar_karp(both, 2, equal_counts=True))
    return found / divided - 1, found / float(steps.sum(axis=1).max()) - 1


# ------------------------------------------------------------------------------------------------------------- packers


def packers_rows() -> list[list[str]]:
    rows = []
    costs = lengths(6.29, CAPACITY)(np.random.default_rng(0), 10**6)
    bound = max(math.ceil(costs.sum() / CAPACITY), int((costs > CAPACITY / 2).sum()))
    for name, packer in PACKERS.items():
        start = time.process_time()
        packs = packer(costs, CAPACITY)
        seconds = time.process_time() - start
        wanted = "≤ 1 s, ≤ +1 %" if name == "best_fit" else ""
        more = f"{len(packs) / bound - 1:+.2%}".replace("%", " %")
        rows.append([f"`{name}` of 10⁶ items, packs above the bound", f"{seconds:.2f} s, {more}", wanted])
    return rows


# ------------------------------------------------------------------------------------------------- plans of real data

LEAVES, SAMPLES = 40, 2_500_000


def make_leaves(folder: Path) -> Path:
    """Prepare a dataset with a column of tokens, link it 40 times, and blend the links: 100 million samples."""
    mix, first = folder / "mix.yaml", folder / "leaf_00"
    if mix.is_file():
        return mix
    make_dataset(first, Recipe(kind="hollow", samples=SAMPLES, shards=50))
    split = SplitRequest(ratio={"train": 1.0})
    run_prepare(PreparePlan(path=str(first), split=split, files=_CRUDE, workers=2, compat=False))
    dataset = folder_at(first)
    tokens = lengths(5)(np.random.default_rng(0), SAMPLES)[:, 0].astype(int)
    write_column(dataset.storage, dataset.index, "tokens", tokens)
    for leaf in range(1, LEAVES):
        shutil.copytree(first, folder / f"leaf_{leaf:02d}", copy_function=os.link)
    lines = "".join(f"      - {{weight: 1, path: leaf_{leaf:02d}}}\n" for leaf in range(LEAVES))
    mix.write_text(f"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n{lines}")
    return mix


def planning_rows(folder: Path) -> list[list[str]]:
    """Measure the planning of windows in a worker: order, costs from the column, groups."""
    mix = make_leaves(folder)
    packed = {"packing": "best_fit", "pack_capacity": {"tokens": CAPACITY}}
    cases: tuple[tuple[str, Path, dict[str, Any]], ...] = (
        ("16 samples", mix.parent / "leaf_00", {"balance": "tokens"}),
        ("16 samples, two costs", mix.parent / "leaf_00", {"balance": ["tokens", "tokens * tokens"]}),
        ("padded, up to 8,192", mix.parent / "leaf_00", {"batch_cost": {"tokens": CAPACITY}, "padded": True}),
        ("packs of 8,192", mix.parent / "leaf_00", packed),
        ("packs of 8,192, a blend of 40", mix, packed),
    )
    rows = []
    for name, path, options in cases:
        request = RunRequest(
            path=str(path),
            batch_size=16 if "balance" in options else None,
            shuffle_buffer_size=1000,
            max_samples_per_sequence=100,
            planning=options,
        )
        costs = []
        for lanes in (48, 1024, 10_240):
            lane = PlannedRun(replace(request, lanes=lanes)).reader.lane_order(7, lanes=lanes, seed=0)
            if not isinstance(lane, PlannedLane):
                raise TypeError("this run plans nothing")
            size = lane.plan.samples
            lane.window(0)
            count = 3 + 100_000 // size
            start = time.process_time()
            for index in range(1, 1 + count):
                lane.window(index)
            costs.append(f"{(time.process_time() - start) / count / size * 1e6:.2f} ({size:,})")
        rows.append([f"planning: {name}; µs a sample in 48, 1,024 and 10,240 lanes (window)", ", ".join(costs), "≤ 2"])
    return rows


def command_rows(folder: Path) -> list[list[str]]:
    """Measure ``energon plan`` of an epoch of 100 million samples."""
    mix, rows = make_leaves(folder), []
    for name, options in (
        ("16 samples", ["--balance", "tokens", "--batch-size", "16"]),
        ("packs", ["--packing", "best_fit", "--pack-capacity", f"tokens={CAPACITY}"]),
    ):
        command: list[str | Path] = [_ENERGON, "plan", mix, *options, "--world-size", str(RANKS), "--json"]
        timed, weighed = run(command), run(command, with_memory=True)
        (facts,) = json.loads(timed.stdout)["steps"]
        kind = "sampled" if facts["is_sampled"] else "exact"
        found = f"{kind}, {facts['samples']:,} samples: {timed.seconds:.0f} s"
        rows.append([f"`energon plan`, 100 M samples, 1,024 ranks, {name}", found, "exact ≤ 120 s"])
        gib, mapped = weighed.peak_private_bytes / 2**30, (weighed.peak_bytes - weighed.peak_private_bytes) / 2**30
        found = f"{gib:.2f} GiB ({gib + mapped:.2f})"
        rows.append(["its memory beyond mapped files (and with them)", found, "≤ 1 GiB"])
    return rows


# ------------------------------------------------------------------------------------------------------------ training

REPETITIONS = 5
COSTS = ('size("txt")', 'size("txt") + size("txt") * size("txt") / 384')  # attention takes as much at 6 times the width


def training_rows() -> list[list[str]]:
    """Train on two ranks of a process group, with a plan and without in turn, and compare both with energon plan."""
    with tempfile.TemporaryDirectory() as folder:
        write_texts(Path(folder, "texts"))
        ranks = [get_context("spawn").Process(target=train_rank, args=(rank, folder)) for rank in range(2)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        measured = json.loads(Path(folder, "measured.json").read_text())
        predicted = [predicted_ratios(Path(folder, "texts"), cost) for cost in COSTS]
    speeds = sorted(plain["seconds"] / planned["seconds"] for plain, planned in measured)
    found = f"{statistics.median(speeds):.2f}× ({', '.join(f'{speed:.2f}' for speed in speeds)})"
    rows = [["training on 2 ranks: real tokens/s next to random, time that passed", found, "≥ 1.4×"]]
    # Compare the processor time of the slower ranks with what is predicted of tokens, and of attention as well.
    work = statistics.median(plain["slower"] / planned["slower"] for plain, planned in measured)
    ratios = [statistics.median(run["ratio"] for run in runs) for runs in zip(*measured, strict=True)]
    names = ("times as fast", "max/mean of a step without a plan", "max/mean of a step with a plan")
    for place, (name, ratio) in enumerate(zip(names, (work, *ratios), strict=True)):
        by_costs = "; ".join(f"{each[place]:.2f}" for each in predicted)
        rows.append([f"{name}: predicted by tokens; with attention; median of 5", f"{by_costs}; {ratio:.2f}", ""])
    return rows


def predicted_ratios(folder: Path, cost: str) -> tuple[float, float, float]:
    """Return how much faster planned steps are by ``energon plan``, and max/mean without a plan and with one."""
    options = ["--balance", cost, "--padded", "--batch-size", str(BATCH), "--world-size", "2", "--lanes", "2"]
    (steps,) = json.loads(run([_ENERGON, "plan", folder, *options, "--json"]).stdout)["steps"]
    # A step takes the time of its slower rank, for all that this rank has with its padding.
    (facts,) = steps["costs"]
    before, after = facts["unplanned"]["mean"], facts["planned"]["mean"]
    faster = before / (1 - facts["unplanned"]["padding"]) / (after / (1 - facts["planned"]["padding"]))
    return faster, before, after


def write_texts(folder: Path) -> None:
    from loader import ShardWriter

    with ShardWriter(folder, split_ratio={"train": 1}) as writer:
        for number, length in enumerate(lengths(5)(np.random.default_rng(0), SEQUENCES)[:, 0].astype(int).tolist()):
            writer.write({"__key__": f"{number:04d}", "txt": "a" * length})


def train_rank(rank: int, folder: str) -> None:
    """Train passes without a plan and with one in turn; rank 0 writes what was measured."""
    import torch
    from torch import distributed

    from loader import DefaultTaskEncoder, WorkerConfig, get_savable_loader, get_train_dataset

    class Padded(DefaultTaskEncoder[Any, Any, Any, Any]):
        def batch(self, samples: list[Any]) -> Any:
            rows = [torch.frombuffer(bytearray(sample["txt"].encode()), dtype=torch.uint8).long() for sample in samples]
            return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 256, dropout=0, batch_first=True)
    model = torch.nn.Sequential(torch.nn.Embedding(256, 64), layer, torch.nn.Linear(64, 256))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def passes(**options: Any) -> Any:
        dataset = get_train_dataset(
            f"{folder}/texts",
            worker_config=WorkerConfig(rank=rank, world_size=2, num_workers=0, lanes=2),
            task_encoder=Padded(),
            batch_size=BATCH,
            shuffle_buffer_size=1000,
            max_samples_per_sequence=100,
            **options,
        )
        return iter(get_savable_loader(dataset))

    def train(batches: Any) -> dict[str, float]:
        """Train one pass, and return its time, that of the slower ranks, and max/mean of the micro-batches."""
        work = []
        distributed.barrier()
        begun = time.perf_counter()
        for _ in range(SEQUENCES // (2 * BATCH * ACCUMULATED)):
            optimizer.zero_grad()
            for _ in range(ACCUMULATED):
                start = time.process_time()
                tokens = next(batches)
                loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
                torch.autograd.backward(loss)
                work.append(time.process_time() - start)
            for parameter in model.parameters():
                distributed.all_reduce(parameter.grad)
            optimizer.step()
        seconds = time.perf_counter() - begun
        every: list[Any] = [None, None]
        distributed.all_gather_object(every, work)
        costs, steps = np.array(every), sums_of_steps(every)
        ratio = float((costs.max(axis=0) / costs.mean(axis=0)).mean())
        return {"seconds": seconds, "slower": float(steps.max(axis=0).sum()), "ratio": ratio}

    plain, planned = passes(), passes(balance='size("txt")', padded=True)
    train(planned)  # the first steps are slower
    measured = [[train(plain), train(planned)] for _ in range(REPETITIONS)]
    if rank == 0:
        Path(folder, "measured.json").write_text(json.dumps(measured))
    distributed.barrier()
    distributed.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ("steps", "published", "packers", "training", "planning", "command")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="measure these")
    parser.add_argument("--data", type=Path, help="folder for the datasets, which a later run finds again")
    options = parser.parse_args()
    facts = machine_facts()
    machine = f"{facts['cores']} cores of {facts['processor']}, load {os.getloadavg()[0]:.0f}"
    print(f"{facts['date']}, {machine}, Python {facts['python']}\n")
    with tempfile.TemporaryDirectory() as made:
        folder = options.data or Path(made)
        sections: dict[str, Callable[[], list[list[str]]]] = {
            "steps": steps_rows,
            "published": published_rows,
            "packers": packers_rows,
            "training": training_rows,
            "planning": lambda: planning_rows(folder),
            "command": lambda: command_rows(folder),
        }
        rows = [row for name in names if name in options.only for row in sections[name]()]
    print_table([["what", "measured", "to reach"], *rows])


if __name__ == "__main__":
    main()
