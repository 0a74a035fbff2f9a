"""The data of the benchmarks of the hub: repositories of tars, sparse where their contents do not matter."""

from __future__ import annotations

import tarfile
from pathlib import Path

SAMPLES = 1000  # of a sparse shard
SAMPLE_BYTES = 24_576


def sparse_shards(folder: Path, count: int) -> None:
    """Write tars that take little room on the disk: contents are holes, and only the first tar has all headers."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(count):
        path = folder / f"shard_{shard:04d}.tar"
        if path.exists():
            continue
        with path.open("wb") as file:
            for sample in range(SAMPLES if shard == 0 else 1):
                header = tarfile.TarInfo(f"{shard:04d}_{sample:05d}.bin")
                header.size = SAMPLE_BYTES
                file.seek(sample * (512 + SAMPLE_BYTES))
                file.write(header.tobuf())
            file.truncate(SAMPLES * (512 + SAMPLE_BYTES) + 1024)
