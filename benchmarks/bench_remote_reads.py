"""Measure ranged reads of 10 kB from an object store: processor time of each, and reads per second at 50 ms of latency.

nginx serves the object where it is installed (``apt-get install nginx``), else SeaweedFS; the server of the tests
answers after 50 ms. Each is a process of its own. The ways to read take turns, and the minimum of many rounds counts,
so that other load on the machine affects all alike.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from report import machine_facts, print_table
from s3_server import ACCESS_KEY, SECRET_KEY, free_port, s3_server, wait_for_port

from loader.storage import ReadableFile, open_storage
from loader.storage.remote import remember_options
from loader.storage.remote.clients.choice import use_rust_here

ROOT = Path(__file__).parents[1]
BUCKET, KEY = "data", "object.bin"
OBJECT_BYTES, READ_BYTES = 64 << 20, 10_000
LATENCY_S, IN_FLIGHT = 0.05, 64
THREADS = 16

NGINX = """
worker_processes 1;
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:{port} backlog=1024; root {root}; }}
}}
"""

Read = Callable[[int], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--reads", type=int, default=300, help="reads of a round")
    arguments = parser.parse_args()
    use_rust_here()
    os.environ.pop("ENERGON_CACHE_DIR", None)
    os.environ.update(AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY, AWS_REGION="us-east-1")
    facts = machine_facts()
    print(", ".join(f"{name} {value}" for name, value in facts.items() if value), end="\n\n")
    with tempfile.TemporaryDirectory() as folder:
        content = random.Random(1).randbytes(OBJECT_BYTES)
        with fast_server(Path(folder), content) as (name, url):
            measure_processor_time(name, url, arguments.rounds, arguments.reads)
        with slow_server(Path(folder), content) as url:
            measure_throughput(url)


def measure_processor_time(server: str, url: str, rounds: int, reads: int) -> None:
    choice = random.Random(2)
    ways = ways_to_read(url)
    least_s = dict.fromkeys(ways, float("inf"))
    for number in range(rounds + 1):
        for name, read_all in ways.items():
            starts = [choice.randrange(OBJECT_BYTES - READ_BYTES) for _ in range(reads)]
            before = time.process_time()
            read_all(starts)
            if number:  # the first round opens connections
                least_s[name] = min(least_s[name], (time.process_time() - before) / reads)
    one, many = "obstore.get_range", f"obstore.get_range, {THREADS} threads"
    print(f"processor time of a GET of {READ_BYTES:,} bytes from {server}, minimum of {rounds} rounds of {reads}:\n")
    cells = [["", "µs", f"of {one}", f"of {many}", "of boto3"]]
    for name, seconds in least_s.items():
        ratios = [f"{seconds / least_s[other]:.2f}" for other in (one, many, "boto3")]
        cells.append([name, f"{seconds * 1e6:.0f}", *ratios])
    print_table(cells)


def ways_to_read(url: str) -> dict[str, Callable[[Sequence[int]], None]]:
    """Return functions that read the object at some offsets."""
    import boto3
    import obstore
    from botocore.config import Config
    from obstore.store import S3Store

    store = S3Store(BUCKET, endpoint=url, client_options={"allow_http": True})
    pool = ThreadPoolExecutor(THREADS)
    client = boto3.client(
        "s3", endpoint_url=url, region_name="us-east-1", config=Config(s3={"addressing_style": "path"})
    )
    remember_options(f"s3://{BUCKET}", {"endpoint_url": url, "max_requests": THREADS})
    storage = open_storage(f"s3://{BUCKET}")
    file = storage.open(KEY, storage.stat(KEY))

    def by_obstore(start: int) -> bytes:
        return bytes(obstore.get_range(store, KEY, start=start, length=READ_BYTES))

    def by_boto3(start: int) -> bytes:
        answer = client.get_object(Bucket=BUCKET, Key=KEY, Range=f"bytes={start}-{start + READ_BYTES - 1}")
        return bytes(answer["Body"].read())

    def all_by_threads(starts: Sequence[int]) -> None:
        for _ in pool.map(by_obstore, starts):
            pass

    return {
        "obstore.get_range": partial(one_by_one, by_obstore),
        "read_at": partial(one_by_one, lambda start: file.read_at(start, READ_BYTES)),
        "fetch, one after another": lambda starts: fetch_all(file, starts, 0),
        f"obstore.get_range, {THREADS} threads": all_by_threads,
        f"fetch, {THREADS} in flight": lambda starts: fetch_all(file, starts, 2 * THREADS),
        "boto3": partial(one_by_one, by_boto3),
    }


def one_by_one(read: Read, starts: Sequence[int]) -> None:
    for start in starts:
        read(start)


def fetch_all(file: ReadableFile, starts: Sequence[int], ahead: int) -> None:
    """Fetch ranges ahead, and wait for them in their order, as a lane does."""
    pending: deque[Any] = deque()
    for start in starts:
        pending.append(file.fetch(start, READ_BYTES))
        if len(pending) > ahead:
            pending.popleft().result()
    while pending:
        pending.popleft().result()


def measure_throughput(url: str, *, reads: int = 6000) -> None:
    storage = open_storage(f"s3://{BUCKET}-slow")
    remember_options(storage.url, {"endpoint_url": url, "max_requests": IN_FLIGHT})
    file = storage.open(KEY, storage.stat(KEY))
    choice = random.Random(3)
    rates, used = [], []
    for number in range(6):
        starts = [choice.randrange(OBJECT_BYTES - READ_BYTES) for _ in range(reads)]
        started, before = time.perf_counter(), time.process_time()
        fetch_all(file, starts, 4 * IN_FLIGHT)
        if number:
            rates.append(reads / (time.perf_counter() - started))
            used.append((time.process_time() - before) / reads)
    print(
        f"\n{IN_FLIGHT} in flight, {1000 * LATENCY_S:.0f} ms of latency: {min(rates):,.0f} to {max(rates):,.0f} GET/s"
        f" of at most {IN_FLIGHT / LATENCY_S:,.0f}, in {len(rates)} rounds of {reads:,};"
        f" {1e6 * min(used):.0f} µs of processor time each"
    )


# ------------------------------------------------------------------------------------------------------------- servers


@contextmanager
def fast_server(folder: Path, content: bytes) -> Iterator[tuple[str, str]]:
    """Serve the object, and yield the server's name and URL."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        with s3_server(folder / "weed", BUCKET) as url:
            remember_options(f"s3://{BUCKET}", {"endpoint_url": url})
            with open_storage(f"s3://{BUCKET}").create(KEY) as file:
                file.write(content)
            yield "SeaweedFS", url
        return
    root = folder / "nginx"
    (root / BUCKET).mkdir(parents=True)
    (root / BUCKET / KEY).write_bytes(content)
    folder.chmod(0o755)  # its workers run as another user
    port = free_port()
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, root=root, port=port))
    process = subprocess.Popen([program, "-c", str(folder / "nginx.conf")], stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port, process, folder / "error.log")
        yield "nginx", f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=20)


@contextmanager
def slow_server(folder: Path, content: bytes) -> Iterator[str]:
    """Serve the object after the latency, and yield the server's URL."""
    (folder / f"objects/{BUCKET}-slow").mkdir(parents=True)
    (folder / f"objects/{BUCKET}-slow/{KEY}").write_bytes(content)
    command = [sys.executable, "-m", "tests.object_server", str(folder / "objects"), "--latency", str(LATENCY_S)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


if __name__ == "__main__":
    main()
