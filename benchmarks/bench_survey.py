"""Measure how long `energon import` takes to decide on the layout of large trees, beyond listing them.

usage: python benchmarks/bench_survey.py tree [--pictures N] [--tables N] [--folder FOLDER]

``tree``: pictures in folders of 1,000, and tables with a row of eight columns for each. The pictures are links to one
file, since no hypothesis opens them. Listing and deciding are timed apart in one process; its largest memory counts.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from report import machine_facts, print_table

IN_FOLDER = 1000
DECIDE = """
import resource, sys, time
from loader.engine import Account
from loader.convert.file_trees.tree import FolderTree
from loader.convert.sources import SourceOptions, open_source

def seconds_of(run):
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    run()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter() - started, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

listing = seconds_of(lambda: sum(len(names) for _, names in FolderTree(sys.argv[1]).folders(Account())))
source = open_source(sys.argv[1], kind="folder", options=SourceOptions())
source.takes_all = False
whole = seconds_of(source.survey)
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(*listing, *whole, *memory, source.hypotheses[0].name, sep="\\t")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tree"])
    parser.add_argument("--pictures", type=int, default=1_000_000)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the files are written; the temporary folder by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print(machine_facts())
        bench_tree(Path(folder, "tree"), options)


def bench_tree(folder: Path, options: argparse.Namespace) -> None:
    write_tree(folder, options.pictures, options.tables)
    rows = [["listing", "CPU", "deciding, with a listing", "CPU", "of the first listing", "memory", "of a child"]]
    name = ""
    for _ in range(options.rounds):
        done = subprocess.run([sys.executable, "-c", DECIDE, folder], check=True, stdout=subprocess.PIPE, text=True)
        *figures, name = done.stdout.rstrip("\n").split("\t")
        listing, listing_cpu, whole, whole_cpu, memory, of_child = map(float, figures)
        seconds = [f"{value:.1f} s" for value in (listing, listing_cpu, whole, whole_cpu)]
        rows.append([*seconds, f"{whole / listing:.1f}", f"{memory / 1024:,.0f} MiB", f"{of_child / 1024:,.0f} MiB"])
    print_table(rows)
    print(f"decided: {name}")


def write_tree(folder: Path, pictures: int, tables: int) -> None:
    """Write links to a picture, and tables that name all of them."""
    chance = random.Random(1)
    (folder / "tables").mkdir(parents=True)
    first = folder / "first.jpg"
    Image.new("RGB", (8, 8)).save(first)
    names = [f"images/{number // IN_FOLDER:04d}/{number:09d}.jpg" for number in range(pictures)]
    for number, name in enumerate(names):
        if number % IN_FOLDER == 0:
            (folder / name).parent.mkdir(parents=True)
        os.link(first, folder / name)
    first.unlink()
    size = pictures // tables
    for table in range(tables):
        with (folder / "tables" / f"{table:03d}.csv").open("w") as file:
            file.write("path,number,caption,width,height,label,score,day\n")
            for number in range(table * size, (table + 1) * size):
                words = " ".join(chance.choice(("cat", "dog", "tree", "house", "river", "cloud")) for _ in range(8))
                cells = (
                    names[number],
                    number,
                    words,
                    640 + number % 7,
                    480,
                    number % 10,
                    chance.random(),
                    "2026-01-01",
                )
                file.write(",".join(map(str, cells)) + "\n")


if __name__ == "__main__":
    main()
