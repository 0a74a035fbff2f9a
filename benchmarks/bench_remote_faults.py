"""Measure reads from an object store that fails now and then: the throughput, and that every byte is right.

usage: python benchmarks/bench_remote_faults.py [--reads N] [--rounds N] [--latency S] [--workers N] …

The store is the object server of the tests, in a process of its own, which answers each request after the latency. Of
its answers 1 % are a 503, 0.5 % a reset and 0.1 % a stall, drawn by a seed. A training loader reads the samples. Their
bytes are computed from shard and offset, so that each read is compared. Timed runs with and without faults take turns,
mostly with a request for each sample; the long one at the end has faults, and about four samples a request.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench_remote_prepare import server
from report import machine_facts, print_table

from loader import WorkerConfig, get_savable_loader, get_train_dataset
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare

RATES = {"503": 0.01, "reset": 0.005, "stall": 0.001}
BUCKET, SHARDS, SAMPLES, CONTENT_BYTES = "bench", 16, 1000, 10_240
GROUP = 4  # samples that are neighbours, so that they may be read by one request
FILLER_BYTES = 136 << 10  # between groups: too much to read over
GROUP_BYTES = GROUP * (512 + CONTENT_BYTES) + 512 + FILLER_BYTES
BATCH, WARM_READS = 16, 3_200
PROGRESS_EVERY = 50_000
WORD, SHARD_STEP, PLACE_STEP = 8, np.uint64(0xD6E8FEB86659FD93), np.uint64(0x9E3779B97F4A7C15)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reads", type=int, default=1_000_000, help="of the long run")
    parser.add_argument("--rounds", type=int, default=3, help="of the timed runs")
    parser.add_argument("--latency", type=float, default=0.05, metavar="SECONDS")
    parser.add_argument("--timed-reads", type=int, default=16_000, help="of a timed run")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--max-requests", type=int, default=64, help="at a time, for each worker")
    parser.add_argument("--work-folder", type=Path, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.work_folder) as folder:
        dataset = Path(folder, BUCKET, "ds")
        write_shards(dataset)
        run_prepare(PreparePlan(path=str(dataset), split=SplitRequest(ratio={"train": 1.0})))
        with server(Path(folder), arguments.latency) as store, environment_of(store, arguments.max_requests):
            print_timed(store, arguments)
            if arguments.reads:
                print_long(store, dataset, arguments)
    print("\n" + json.dumps(machine_facts()))


# ---------------------------------------------------------------------------------------------------------- the data


def write_shards(folder: Path) -> None:
    """Write shards of samples of one part, and holes between groups, which are members without an extension."""
    folder.mkdir(parents=True)
    for shard in range(SHARDS):
        with (folder / f"shard_{shard:03}.tar").open("wb") as file:
            for number in range(SAMPLES):
                file.write(header(f"{shard:03}{number:05}.bin", CONTENT_BYTES))
                file.write(contents(shard, file.tell()).tobytes())
                if number % GROUP == GROUP - 1:
                    file.write(header("filler", FILLER_BYTES))
                    file.seek(FILLER_BYTES, os.SEEK_CUR)
            file.write(bytes(2 * 512))


def header(name: str, size_bytes: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size_bytes
    return member.tobuf()


def contents(shard: int, offset: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the words of a sample at an offset of a shard; no two words of the dataset are alike."""
    places = np.arange(offset // WORD, (offset + CONTENT_BYTES) // WORD, dtype=np.uint64)
    return places * PLACE_STEP + np.full(1, shard, np.uint64) * SHARD_STEP


def is_right(key: str, data: bytes) -> bool:
    """Compare the bytes of a sample with those of its place."""
    name = key.rpartition("/")[2]
    shard, number = int(name[:3]), int(name[3:])
    offset = number // GROUP * GROUP_BYTES + number % GROUP * (512 + CONTENT_BYTES) + 512
    expected = contents(shard, offset)
    return len(data) == CONTENT_BYTES and bool((np.frombuffer(data, np.uint64) == expected).all())


# ---------------------------------------------------------------------------------------------------------- the runs


@dataclass(frozen=True)
class Reads:
    """The reads of a run.

    Attributes:
        seconds: Time of the reads after the first ones.
        wrong: Reads with a wrong byte.
        skipped: Samples that were skipped.
        digest: Hash of all keys, in the order of the batches.
    """

    seconds: float
    wrong: int
    skipped: int
    digest: str


def read(path: str, reads: int, arguments: argparse.Namespace, *, warm: int = 0, together: int = 1) -> Reads:
    """Read samples of a shuffled order, batch by batch, and compare them.

    Args:
        path: The dataset.
        reads: Number of samples that are timed.
        arguments: Of the command.
        warm: Number of samples before these.
        together: Neighbours that come soon after each other, so that one request may read them.
    """
    skipped: list[Any] = []
    config = WorkerConfig(
        rank=0, world_size=1, num_workers=arguments.workers, global_error_handler=lambda *about: skipped.append(about)
    )
    dataset = get_train_dataset(
        path,
        worker_config=config,
        batch_size=BATCH,
        shuffle_buffer_size=400 if together == 1 else 60,
        max_samples_per_sequence=together,
    )
    digest, wrong, done, started = hashlib.sha256(), 0, 0, time.perf_counter()
    begun = started
    with get_savable_loader(dataset) as loader:
        for batch in loader:
            for key, data in zip(batch["__key__"], batch["bin"], strict=True):
                digest.update(f"{key}\n".encode())
                wrong += not is_right(key, data)
            done += BATCH
            if done % PROGRESS_EVERY < BATCH:
                print(f"{done:,} reads in {time.perf_counter() - begun:.0f} s, {wrong} wrong", file=sys.stderr)
            if done == warm:
                started = time.perf_counter()
            if done >= reads + warm:
                break
        seconds = time.perf_counter() - started
    return Reads(seconds, wrong, len(skipped), digest.hexdigest())


def print_timed(store: Any, arguments: argparse.Namespace) -> None:
    url, latency_s, timed, rates = f"s3://{BUCKET}/ds", arguments.latency, arguments.timed_reads, []
    rows = [["round", "reads/s without faults", "reads/s with faults", "share"]]
    for number in range(arguments.rounds):
        measured = []
        for faults in ({}, RATES):
            store.plan(seed=number, rates=faults, latency_s=latency_s)
            found = read(url, timed, arguments, warm=WARM_READS)
            measured.append((found, timed / found.seconds))
        (without, fast), (with_faults, slow) = measured
        if without.digest != with_faults.digest or with_faults.wrong or with_faults.skipped:
            sys.exit(f"the batches differ: {without}, {with_faults}")
        rates.append(slow / fast)
        rows.append([str(number + 1), f"{fast:,.0f}", f"{slow:,.0f}", f"{slow / fast:.0%}"])
    if rates:
        print(
            f"{timed:,} reads of {CONTENT_BYTES:,} bytes, {latency_s * 1000:.0f} ms, {arguments.workers} worker(s), "
            f"{arguments.max_requests} requests at a time\n"
        )
        print_table(rows)
        print(f"\nmedian share: {statistics.median(rates):.0%}", flush=True)


def print_long(store: Any, dataset: Path, arguments: argparse.Namespace) -> None:
    before = store.counts()
    store.plan(seed=99, rates=RATES, latency_s=arguments.latency)
    found = read(f"s3://{BUCKET}/ds", arguments.reads, arguments, together=GROUP)
    after = store.counts()
    local = read(str(dataset), arguments.reads, arguments, together=GROUP)
    faults = {kind: count - before["faults"].get(kind, 0) for kind, count in after["faults"].items()}
    print(f"\n{arguments.reads:,} reads in {found.seconds:,.0f} s: {found.wrong} wrong, {found.skipped} skipped,")
    print(f"batches {'as' if found.digest == local.digest else 'NOT AS'} those of the files on this machine,")
    print(f"{after['requests'] - before['requests']:,} requests, faults {json.dumps(faults)}")


@contextmanager
def environment_of(store: Any, max_requests: int) -> Iterator[None]:
    """Send the requests of this process and its workers to the store, without a cache."""
    os.environ |= store.environment
    os.environ.pop("ENERGON_CACHE_DIR", None)
    os.environ["ENERGON_STORAGE_OPTIONS"] = json.dumps({"": {"max_requests": max_requests}})
    yield


if __name__ == "__main__":
    main()
