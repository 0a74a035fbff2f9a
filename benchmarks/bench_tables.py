"""Read pictures from Parquet files in place, and the same pictures from tars; shuffled, in turns of the same run.

::

    python benchmarks/bench_tables.py [--rows 4000] [--side 512] [--row-group 250] [--ranks 4] [--epochs 2]

Prints samples of both a second of processor time, and their ratio; how often a row group is decoded in an epoch on so
many ranks; the largest size of the cache of row groups; the bytes of the index for each row; and the memory of a
process that reads an epoch of each. The ranks run one after another in this process, each with an empty cache.
"""

from __future__ import annotations

import argparse
import io
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image
from pyarrow import parquet

from loader import WorkerConfig, get_loader, get_train_dataset
from loader.format.records import row_file
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare

FILES = 4
TURN = 100  # samples
TYPE = "sample_type: {{__module__: megatron.energon, __class__: ImageSample}}\nfield_map: {{image: {part}}}\n"


def main() -> None:
    """Write both datasets, and measure."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rows", 4000), ("side", 512), ("row-group", 250), ("ranks", 4), ("epochs", 2)):
        options.add_argument(f"--{name}", type=int, default=default)
    options.add_argument("--memory-of", help=argparse.SUPPRESS)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    if given.memory_of:
        print(f"memory of a process that reads {Path(given.memory_of).name}: {memory(Path(given.memory_of)):,.0f} MiB")
        return
    with tempfile.TemporaryDirectory() as folder:
        table, tars = Path(folder, "table"), Path(folder, "tars")
        size_bytes = write(table, tars, rows=given.rows, side=given.side, group=given.row_group)
        print(f"{given.rows:,} pictures, {size_bytes / 1e6:,.0f} MB, row groups of {given.row_group} rows")
        index = sum(file.stat().st_size for file in (table / ".nv-meta/index").rglob("*") if file.is_file())
        print(f"index: {index / given.rows:.2f} bytes a row")
        # Alternate in short turns, and count processor time, so that other programs change little.
        seconds = dict.fromkeys(("table", "tars"), 0.0)
        for _ in range(given.epochs):
            streams = {path.name: samples(path, rank=0, ranks=1) for path in (tars, table)}
            for _ in range(-(-given.rows // TURN)):
                for name, stream in streams.items():
                    start = time.process_time()
                    for _ in islice(stream, TURN):
                        pass
                    seconds[name] += time.process_time() - start
        speed = {name: given.epochs * given.rows / total for name, total in seconds.items()}
        print(
            f"samples a second of the processor: {speed['table']:,.0f} of the table, {speed['tars']:,.0f} of tars",
            end="; ",
        )
        print(f"ratio {speed['table'] / speed['tars']:.2f}")
        for path in (tars, table):
            subprocess.run([sys.executable, __file__, "--memory-of", str(path)], check=True)
        for ranks in dict.fromkeys((1, given.ranks)):
            mean, cache_bytes = decodes(table, ranks)
            print(f"{ranks} ranks: {mean:.2f} decodes of a row group an epoch, at most {cache_bytes / 2**20:,.0f} MiB")


def write(table: Path, tars: Path, *, rows: int, side: int, group: int) -> int:
    """Write pictures to Parquet files and tars, and prepare both; return the bytes of the pictures."""
    numbers, total = np.random.default_rng(0), 0
    for folder in (table, tars):
        folder.mkdir()
    for file in range(FILES):
        pictures = []
        for _ in range(rows // FILES):
            coarse = Image.fromarray(numbers.integers(0, 255, (side // 4, side // 4, 3), dtype=np.uint8))
            encoded = io.BytesIO()
            coarse.resize((side, side), Image.Resampling.BILINEAR).save(encoded, "JPEG", quality=92)
            pictures.append(encoded.getvalue())
        total += sum(map(len, pictures))
        values = [{"bytes": data, "path": None} for data in pictures]
        type_ = pa.struct({"bytes": pa.binary(), "path": pa.string()})
        columns = pa.table({"image": pa.array(values, type_)})
        parquet.write_table(columns, table / f"{file}.parquet", row_group_size=group)
        with tarfile.open(tars / f"{file}.tar", "w") as archive:
            for number, data in enumerate(pictures):
                member = tarfile.TarInfo(f"{file}_{number:06}.jpg")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    for folder, part in ((table, "image"), (tars, "jpg")):
        files = {"dataset.yaml": TYPE.format(part=part)}
        run_prepare(PreparePlan(path=str(folder), split=SplitRequest(ratio={"train": 1.0}), files=files))
    return total


def samples(path: Path, *, rank: int, ranks: int) -> Iterator[Any]:
    """Yield the samples of an epoch of a rank."""
    config = WorkerConfig(rank=rank, world_size=ranks, num_workers=0)
    shuffle: dict[str, Any] = {"shuffle_buffer_size": 1000, "max_samples_per_sequence": 100}
    dataset = get_train_dataset(path, worker_config=config, batch_size=None, repeat=False, **shuffle)
    yield from get_loader(dataset)


def memory(path: Path) -> float:
    """Return the median memory of this process while it reads an epoch in MiB, without pages of files."""
    sizes = []
    for row, _ in enumerate(samples(path, rank=0, ranks=1)):
        if row % 50 == 49:
            lines = Path("/proc/self/status").read_text().splitlines()
            sizes.append(next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")))
    return statistics.median(sizes) / 1024


def decodes(path: Path, ranks: int) -> tuple[float, int]:
    """Return the mean number of decodes of a row group in an epoch, and the largest size of a cache in bytes."""
    counts, largest, original = Counter[Any](), 0, row_file.RowGroups.decode

    def counted(self: Any, group: int, *names: Any) -> Any:
        counts[self.path, group] += 1
        return original(self, group, *names)

    row_file.RowGroups.decode = counted  # type: ignore[method-assign, assignment]
    try:
        for rank in range(ranks):
            row_file.row_cache = row_file.RowCache()
            for _ in samples(path, rank=rank, ranks=ranks):
                largest = max(largest, row_file.row_cache._bytes + row_file.row_cache.ready_bytes)  # noqa: SLF001
    finally:
        row_file.RowGroups.decode = original  # type: ignore[method-assign]
    return sum(counts.values()) / len(counts), largest


if __name__ == "__main__":
    main()
