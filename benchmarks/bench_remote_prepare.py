"""Measure the prepare of a dataset in an object store: seconds, requests and bytes, against megatron-energon.

usage: python benchmarks/bench_remote_prepare.py [--peer-bin FOLDER] [--work-folder FOLDER] [--latency S] [--rounds N]
       [--quick]

The store is the object server of the tests, which answers each request after the latency, and sends bodies by the
kernel (sendfile). megatron-energon reads it through multi-storage-client (``msc://``); its programs are in FOLDER, with
boto3. Both run as whole processes, and take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import machine_facts, print_table

ROOT = Path(__file__).parents[1]
MAX_FAILURES = 5
BUCKET, SHARDS, SAMPLES, CONTENT_BYTES = "bench", 50, 100, 100_000
OURS = ("prepare", "s3://bench/ds", "--no-progress")
PEER = ("prepare", "msc://bench/ds", "--no-progress")
DEFAULT, UNCHANGED, PEER_NAME = "energon-toolkit", "energon-toolkit, nothing changed", "megatron-energon"
FLAGS = ("--non-interactive", "--num-workers", "2", "--split-ratio", "8,1,1", "--sample-type", "CrudeWebdataset")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-bin", type=Path, help="folder of megatron-energon's programs")
    parser.add_argument("--work-folder", type=Path, default=None)
    parser.add_argument("--latency", type=float, default=0.03, metavar="SECONDS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="5 shards instead of 50, one round")
    arguments = parser.parse_args()
    shards, rounds = (5, 1) if arguments.quick else (SHARDS, arguments.rounds)
    commands = _commands(arguments.peer_bin)
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    failures = Counter[str]()
    with tempfile.TemporaryDirectory(dir=arguments.work_folder) as folder:
        dataset = Path(folder, BUCKET, "ds")
        write_shards(dataset, shards)
        with server(Path(folder), arguments.latency) as store:
            for _ in range(rounds):
                for name, command in commands.items():
                    run = None
                    while run is None:
                        if name != UNCHANGED:
                            _remove_metadata(dataset)
                        run = store.measure(command)
                        failures[name] += run is None
                        if failures[name] > MAX_FAILURES:
                            sys.exit(f"{name} failed {failures[name]} times")
                    runs[name].append(run)
    latency_ms = arguments.latency * 1000
    print(f"{shards} shards of {SAMPLES} samples of {CONTENT_BYTES:,} bytes, {latency_ms:.0f} ms a request\n")
    rows = [["prepare", "seconds (median)", "seconds of each round", "CPU seconds", "requests", "MB received"]]
    print_table([*rows, *(_row(name, found) for name, found in runs.items())])
    for name, count in failures.items():
        if count:
            print(f"\n{name} failed {count} times, and was run again")
    if arguments.peer_bin:
        print(f"\nratio of the medians: {_median_s(runs[PEER_NAME]) / _median_s(runs[DEFAULT]):.1f}")
    programs = [arguments.peer_bin / "energon"] if arguments.peer_bin else []
    print("\n" + json.dumps(machine_facts(*programs)))


def _commands(peer_bin: Path | None) -> dict[str, list[str]]:
    """Return the commands of a round, which take turns; each but UNCHANGED starts without metadata."""
    ours = [sys.executable, "-m", "energon_cli"]
    commands = {DEFAULT: [*ours, *OURS, *FLAGS], UNCHANGED: [*ours, *OURS, "--yes"]}
    if peer_bin is not None:
        commands[PEER_NAME] = [str(peer_bin / "energon"), *PEER, *FLAGS]
    return commands | {
        f"energon-toolkit, --scan {mode}": [*ours, *OURS, *FLAGS, "--scan", mode] for mode in ("stream", "hop")
    }


def _remove_metadata(dataset: Path) -> None:
    shutil.rmtree(dataset / ".nv-meta", ignore_errors=True)
    for path in dataset.glob("*.idx"):
        path.unlink()


def _median_s(runs: Sequence[Run]) -> float:
    return statistics.median(run.seconds for run in runs)


def _row(name: str, runs: Sequence[Run]) -> list[str]:
    seconds = ", ".join(f"{run.seconds:.2f}" for run in runs)
    cpu_s = statistics.median(run.cpu_s for run in runs)
    last = runs[-1]
    return [name, f"{_median_s(runs):.2f}", seconds, f"{cpu_s:.2f}", f"{last.requests:,}", f"{last.received_mb:,.1f}"]


def write_shards(folder: Path, count: int) -> None:
    """Write shards of samples of a jpg and a txt; the contents of the jpg are holes."""
    folder.mkdir(parents=True)
    for shard in range(count):
        with (folder / f"shard_{shard:03}.tar").open("wb") as file:
            for number in range(SAMPLES):
                for name, size in ((f"{shard:03}{number:05}.jpg", CONTENT_BYTES), (f"{shard:03}{number:05}.txt", 100)):
                    member = tarfile.TarInfo(name)
                    member.size = size
                    file.write(member.tobuf())
                    file.seek(-(-size // 512) * 512, os.SEEK_CUR)
            file.write(bytes(2 * 512))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a command; processor seconds are those of its processes, without the server."""

    seconds: float
    cpu_s: float
    requests: int
    received_mb: float


class Store:
    """A server in a process of its own.

    Args:
        process: The process.
        url: Its URL.
        folder: Folder for the configuration of clients.
    """

    def __init__(self, process: subprocess.Popen[str], url: str, folder: Path) -> None:
        self._process = process
        self._config = folder / "msc.json"
        options = {"base_path": BUCKET, "region_name": "us-east-1", "endpoint_url": url}
        keys = {"access_key": "someone", "secret_key": "something"}
        profile = {
            "storage_provider": {"type": "s3", "options": options},
            "credentials_provider": {"type": "S3Credentials", "options": keys},
        }
        self._config.write_text(json.dumps({"profiles": {"bench": profile}}))
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "someone",
            "AWS_SECRET_ACCESS_KEY": "something",
            "MSC_CONFIG": str(self._config),
        }

    def _ask(self, command: str) -> str:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def _count(self) -> tuple[int, int]:
        requests, sent_bytes = self._ask("count").split()
        return int(requests), int(sent_bytes)

    def counts(self) -> dict[str, Any]:
        """Return the number of ``requests``, and that of each of the ``faults``."""
        found: dict[str, Any] = json.loads(self._ask("counts"))
        return found

    def plan(self, **fields: Any) -> None:
        """Set the fields of the server's fault plan."""
        self._ask(f"plan {json.dumps(fields)}")

    def measure(self, command: Sequence[str]) -> Run | None:
        """Run a command to its end; return None if it fails."""
        requests, sent_bytes = self._count()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if result.returncode:
            print(f"{' '.join(command)} failed: {result.stdout[-300:]}{result.stderr[-300:]}", file=sys.stderr)
            return None
        requests_after, sent_after = self._count()
        return Run(
            seconds=seconds,
            cpu_s=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            requests=requests_after - requests,
            received_mb=(sent_after - sent_bytes) / 1e6,
        )


@contextmanager
def server(folder: Path, latency_s: float) -> Iterator[Store]:
    command = [sys.executable, "-m", "tests.object_server", str(folder), "--latency", str(latency_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield Store(process, process.stdout.readline().strip(), folder)
        finally:
            process.stdin.close()


if __name__ == "__main__":
    main()
