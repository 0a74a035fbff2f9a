"""Measure `energon import` of what people have, next to other ways of making the same dataset.

usage: python benchmarks/bench_import.py parquet [--workers N] [--rounds N] [--size-mb MB] [--kb KB]
       python benchmarks/bench_import.py folder --peer-bin FOLDER [--rounds N] [--samples N]

``parquet``: a Parquet file with embedded pictures of about ``--kb`` KB, in row groups of 100 rows, as the Hugging Face
Hub has them. Import and `cat FILE > copy` run in turns, each import as a process of its own whose start counts. The
fastest round of each counts, after one round that fills the page cache.

``folder``: pictures with captions as loose files. In turns: `energon import` with two workers and with one; a loop of
webdataset's `ShardWriter` in one process; and `energon prepare` of megatron-energon on the result of that loop.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from demo_photographs import captioned_crops
from pyarrow import parquet
from report import machine_facts, print_table

SHARD_WRITER = """
import sys
from pathlib import Path
from webdataset import ShardWriter
folder, output = map(Path, sys.argv[1:])
output.mkdir()
with ShardWriter(f"{output}/shard_%06d.tar", maxcount=10_000, maxsize=1e9, verbose=0) as writer:
    for picture in sorted(folder.rglob("*.jpg")):
        key = picture.relative_to(folder).with_suffix("").as_posix()
        text = picture.with_suffix(".txt").read_text()
        writer.write({"__key__": key, "jpg": picture.read_bytes(), "txt": text})
"""
IMPORT = """
import sys, resource, time
from loader.convert.importing import ImportPlan, run_import
from loader.convert.sources import SourceOptions, open_source
source = open_source(sys.argv[1], kind=None, options=SourceOptions())
run_import(ImportPlan(sources=(source,), output=sys.argv[2], workers=int(sys.argv[3])))
print(max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) // 1024)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["folder", "parquet"])
    parser.add_argument("--peer-bin", help="the programs of an environment with megatron-energon")
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size-mb", type=int, default=2000)
    parser.add_argument("--kb", type=int, default=100, help="mean size of a picture")
    parser.add_argument("--folder", help="where the files are written; the temporary folder by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print(machine_facts())
        (bench_parquet if options.what == "parquet" else bench_folder)(Path(folder), options)


def bench_folder(folder: Path, options: argparse.Namespace) -> None:
    photographs, out = folder / "photographs", folder / "out"
    write_folder(photographs, options.samples)
    program = Path(sys.executable).with_name("energon")

    def importing(workers: int) -> list[str]:
        flags = ["--yes", "--split-ratio", "8,1,1", "--num-workers", str(workers), "--no-progress", "-q"]
        return [str(program), "import", str(photographs), str(out), *flags]

    commands = {
        "energon import, 2 workers": [importing(2)],
        "energon import, 1 worker": [importing(1)],
        "ShardWriter loop": [[sys.executable, "-c", SHARD_WRITER, str(photographs), str(out)]],
    }
    if options.peer_bin:
        prepare = [f"{options.peer_bin}/energon", "prepare", str(out), "--non-interactive", "--split-ratio", "8,1,1"]
        prepare += ["--sample-type", "CrudeWebdataset"]
        commands["ShardWriter loop, then prepare of megatron-energon"] = [*commands["ShardWriter loop"], prepare]
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(options.rounds + 1):
        for name, steps in commands.items():
            seconds[name].append(sum(map(seconds_of, steps)))
            shutil.rmtree(out)
    ours = {name: min(times[1:]) for name, times in seconds.items()}
    best, alone = ours["energon import, 2 workers"], ours["energon import, 1 worker"]
    rows = [["what", "rounds", "fastest", "of import, 2 workers", "of import, 1 worker"]]
    for name, times in seconds.items():
        rounds = ", ".join(f"{time:.2f}" for time in times[1:])
        rows.append([name, rounds, f"{ours[name]:.2f} s", f"{ours[name] / best:.2f}", f"{ours[name] / alone:.2f}"])
    print_table(rows)


def write_folder(folder: Path, samples: int) -> None:
    """Write pictures of 384 × 288 pixels, crops of photographs, and captions."""
    pictures = []
    for picture, _ in captioned_crops():
        for side in (300, 340, 384):
            data = io.BytesIO()
            picture.resize((side, side * 3 // 4)).save(data, "JPEG", quality=90)
            pictures.append(data.getvalue())
    for number in range(samples):
        inner = folder / f"{number // 1000:03d}"
        inner.mkdir(parents=True, exist_ok=True)
        (inner / f"{number:06d}.jpg").write_bytes(pictures[number % len(pictures)] + b"%d" % number)
        (inner / f"{number:06d}.txt").write_text(f"a photograph with the number {number}")


def bench_parquet(folder: Path, options: argparse.Namespace) -> None:
    table = folder / "pictures.parquet"
    write_pictures(table, options.size_mb, options.kb)
    size_mb = table.stat().st_size / 1e6
    copying, importing, cpu, memory = [], [], [], 0
    for _ in range(options.rounds + 1):
        copying.append(seconds_of(["sh", "-c", 'cat "$1" > "$2"', "sh", str(table), str(folder / "copy")]))
        (folder / "copy").unlink()
        before = cpu_seconds()
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", IMPORT, table, folder / "out", str(options.workers)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        importing.append(time.perf_counter() - started)
        cpu.append(cpu_seconds() - before)
        memory = max(memory, int(done.stdout))
        shutil.rmtree(folder / "out")
    best_copy, best_import = min(copying[1:]), min(importing[1:])
    print_table(
        [
            ["what", "fastest round", "MB/s", "of cat", "to reach", "processor time", "most memory of a process"],
            ["cat", f"{best_copy:.2f} s", f"{size_mb / best_copy:,.0f}", "1", "", "", ""],
            [
                f"parquet, {options.workers} workers",
                f"{best_import:.2f} s",
                f"{size_mb / best_import:,.0f}",
                f"{best_copy / best_import:.2f}",
                "0.3",
                f"{min(cpu[1:]):.2f} s",
                f"{memory} MiB",
            ],
        ]
    )


def seconds_of(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def write_pictures(path: Path, size_mb: int, kb: int) -> None:
    """Write a table of pictures with captions; the pictures are random bytes behind the header of a JPEG."""
    chance = random.Random(1)
    schema = pa.schema(
        [("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("caption", pa.string())]
    )
    rows = size_mb * 1000 // kb
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 100):
            sizes = [chance.randrange(kb * 500, kb * 1500) for _ in range(min(100, rows - start))]
            images = [{"bytes": b"\xff\xd8\xff\xe0" + os.urandom(size), "path": None} for size in sizes]
            captions = [f"a picture of the number {start + row}" for row in range(len(sizes))]
            writer.write_table(pa.table({"image": images, "caption": captions}, schema=schema))


if __name__ == "__main__":
    main()
