"""Measure the preparation of a join against megatron-energon, and print a table.

usage: python benchmarks/bench_join.py [--peer-bin FOLDER] [--work-folder FOLDER] [--rounds N] [--quick]

Both tools join two datasets of a million samples each, with the same keys in different shards. They run in turn, as
whole processes, on the same files with a warm cache. Figures are the median of the rounds; memory is measured in a
separate round. Each result is checked for all rows. The datasets need 4 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from bench_commands import PREPARE, CommandFailedError, alone_in, check_count
from make_data import DEFAULTS, Recipe, make_dataset
from processes import run
from report import machine_facts, print_table

MIB = 1024 * 1024
TARGET = 3.0
SPLIT = ("--split-parts", "train:shard_.*", "--skip-dataset-yaml", "--compat")
METADATASET = """\
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train:
    join:
    - {path: one, split_part: train}
    - {path: other, split_part: train}
    joiner: {__module__: my_module, __class__: Joined}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The datasets, the metadataset and the two programs."""

    folder: Path
    own: Path
    peer: Path
    recipe: Recipe

    @property
    def metadataset(self) -> Path:
        return self.folder / "meta.yaml"

    def make(self) -> None:
        """Write and prepare both datasets, unless an earlier run did, and write the metadataset."""
        recipes = {"one": self.recipe, "other": replace(self.recipe, shards=self.recipe.shards * 2 // 3, salt=1)}
        for name, recipe in recipes.items():
            folder = self.folder / name
            make_dataset(folder, recipe)
            if not (folder / ".nv-meta/.info.json").exists():
                run([self.own, *PREPARE, *SPLIT, folder])
            check_count(folder, recipe.samples)
        self.metadataset.write_text(METADATASET)

    def measure_own(self, *, with_memory: bool = False) -> float:
        """Return the time of our prepare in seconds, or its peak memory in bytes."""
        joins = Path(f"{self.metadataset}.joins")
        shutil.rmtree(joins, ignore_errors=True)
        os.sync()  # pending writes of the previous run must not slow this one
        result = run([self.own, "prepare", "--no-progress", self.metadataset], with_memory=with_memory)
        (rows,) = (np.load(path, mmap_mode="r") for path in joins.glob("*.npy"))
        if rows.shape != (self.recipe.samples, 2) or not (rows == np.arange(self.recipe.samples)[:, None]).all():
            raise CommandFailedError(f"expected row n to be sample n twice, found {rows[:3].tolist()} …")
        return result.peak_bytes if with_memory else result.seconds

    def measure_peer(self, *, with_memory: bool = False) -> float:
        """Return the time or the peak memory of megatron-energon's prepare."""
        shutil.rmtree(f"{self.metadataset}.cache", ignore_errors=True)
        os.sync()
        result = run([self.peer, "prepare", self.metadataset], with_memory=with_memory)
        if f"Joined all {self.recipe.samples} samples" not in result.stdout:
            raise CommandFailedError(f"expected all {self.recipe.samples} samples to be joined, found: {result.stdout}")
        return result.peak_bytes if with_memory else result.seconds


def main() -> int:
    """Measure and print; return 0 if the target is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-bin", type=Path, default=Path(os.environ.get("ENERGON_PEER_BIN", ".venv-peer/bin")))
    parser.add_argument("--work-folder", type=Path, default=Path("build/bench"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--quick", action="store_true", help="use a twentieth of the samples, to test the benchmark itself"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    samples = DEFAULTS["tiny"].samples // (20 if arguments.quick else 1)
    bench = Bench(
        folder=arguments.work_folder / ("join-quick" if arguments.quick else "join"),
        own=Path(sys.executable).with_name("energon"),
        peer=arguments.peer_bin / "energon",
        recipe=replace(DEFAULTS["tiny"], samples=samples),
    )
    if not bench.peer.exists():
        raise SystemExit(f"no megatron-energon at {bench.peer}; pass its folder as --peer-bin")
    with alone_in(arguments.work_folder):
        bench.make()
        rounds = [(bench.measure_own(), bench.measure_peer()) for _ in range(arguments.rounds)]
        own_bytes, peer_bytes = bench.measure_own(with_memory=True), bench.measure_peer(with_memory=True)
    own_s, peer_s = (statistics.median(seconds) for seconds in zip(*rounds, strict=True))
    ratio = peer_s / own_s
    work = f"join 2 × {samples:,} samples"
    facts = machine_facts(bench.own, bench.peer)
    print(" · ".join(f"{name}: {value}" for name, value in facts.items()))
    print_table(
        [
            ["work", "ours", "megatron-energon", "ratio", "target", ""],
            [
                work,
                f"{own_s:.2f} s",
                f"{peer_s:.2f} s",
                f"{ratio:.1f}×",
                f"≥ {TARGET:g}×",
                "yes" if ratio >= TARGET else "no",
            ],
            ["peak memory", f"{own_bytes / MIB:.0f} MiB", f"{peer_bytes / MIB:.0f} MiB", "", "", ""],
        ]
    )
    if arguments.json:
        figures = {"ours": {"seconds": own_s, "bytes": own_bytes}, "peer": {"seconds": peer_s, "bytes": peer_bytes}}
        arguments.json.write_text(json.dumps({"machine": facts, "figures": figures}, indent=2) + "\n")
    return 0 if arguments.quick or ratio >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
