"""Measure loading from an S3 server against megatron-energon, webdataset, mosaicml-streaming and litdata.

usage: python benchmarks/bench_remote_load.py [--peer-bin FOLDER] [--other-bin FOLDER] [--work-folder FOLDER]
           [--direct] [--latency S] [--kind KIND]… [--workers N]… [--library NAME]… [--rounds N] [--json FILE]

Each measurement is a separate process on a node without copies: it opens the dataset and loads an epoch. The libraries
take turns; figures are medians. The server is SeaweedFS with nginx before it, which answers from its cache and counts
requests and bytes; with --direct, SeaweedFS alone. --latency adds seconds to each round trip.

Both energons read the same prepared shards: this toolkit by s3://, megatron-energon by msc://, as its documentation
says (multi-storage-client, without a cache). webdataset reads these shards by `pipe:curl`. mosaicml-streaming and
litdata read copies in their own formats, by their own clients of S3, and keep what they download.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench_commands import alone_in
from bench_load import CONVERTING, Bench
from load_data import FIELDS, Size, make_loading_dataset
from load_rows import LIBRARIES, OURS, PEER, Figures
from nginx_front import NginxFront, nginx_front
from processes import CommandFailedError, run
from report import machine_facts, print_table
from s3_server import ACCESS_KEY, SECRET_KEY, free_port, s3_server

BUCKET = "bench"
SIZES = {"json": Size(samples=80_000, shards=10), "captions": Size(samples=4_000, shards=10)}
WORK = {"json": "json of 150 bytes", "captions": "JPEG to float tensor"}
REMOTE = tuple(library for library in LIBRARIES if library != "lancedb")  # is compared on this machine alone
KINDS, WORKERS = tuple(SIZES), (0, 2)
Job = tuple[str, str, int]  # library, kind, workers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-bin", type=Path, default=Path(".venv-peer/bin"))
    parser.add_argument("--other-bin", type=Path, default=Path(".venv-loaders/bin"))
    parser.add_argument("--work-folder", type=Path, default=Path("build/bench"))
    parser.add_argument("--direct", action="store_true", help="no nginx before SeaweedFS")
    parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--workers", action="append", type=int)
    parser.add_argument("--library", action="append", choices=REMOTE)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures of all rounds to this file")
    arguments = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.pop("ENERGON_CACHE_DIR", None)
    folder = arguments.work_folder.absolute() / "remote-loading"
    bench = Bench(folder=folder, peer_bin=arguments.peer_bin.absolute(), other_bin=arguments.other_bin.absolute())
    libraries, kinds = arguments.library or list(REMOTE), arguments.kind or list(KINDS)
    with alone_in(folder), ExitStack() as stack:
        make_data(bench, kinds, libraries)
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        url = stack.enter_context(s3_server(scratch / "server", BUCKET))
        use_endpoint(url, scratch)
        upload(folder, kinds, libraries)
        front = None if arguments.direct else stack.enter_context(nginx_front(scratch / "nginx", url))
        if front is not None:
            use_endpoint(front.url, scratch)
            for signed in signed_urls():
                with urllib.request.urlopen(signed) as answer, open(os.devnull, "wb") as nowhere:
                    shutil.copyfileobj(answer, nowhere)
        if arguments.latency:
            port = int((front.url if front else url).rpartition(":")[2])
            use_endpoint(stack.enter_context(slow_relay(port, arguments.latency)), scratch)
        jobs = [(lib, kind, number) for kind in kinds for number in arguments.workers or WORKERS for lib in libraries]
        figures, failures = measure(bench, jobs, arguments.rounds, scratch, front)
    facts = machine_facts(Path(sys.executable).with_name("energon"))
    print(" · ".join(f"{name}: {value}" for name, value in facts.items()), end="\n\n")
    print_table(table(jobs, figures))
    for job, failure in failures.items():
        print("", job, failure, sep="\n")
    if arguments.json:
        document = {"machine": facts, "figures": {" ".join(map(str, job)): runs for job, runs in figures.items()}}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    return 1 if failures else 0


def make_data(bench: Bench, kinds: Sequence[str], libraries: Sequence[str]) -> None:
    for kind in kinds:
        make_loading_dataset(kind, bench.folder / kind, Path(sys.executable).with_name("energon"), SIZES[kind])
        for library in (one for one in CONVERTING if one in libraries):
            run(bench.command(library, "convert", kind))


def use_endpoint(url: str, scratch: Path) -> None:
    """Let all clients that start from now on use a server."""
    options = {"base_path": BUCKET, "region_name": "us-east-1", "endpoint_url": url}
    keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
    profile = {
        "storage_provider": {"type": "s3", "options": options},
        "credentials_provider": {"type": "S3Credentials", "options": keys},
    }
    configuration = scratch / "msc.json"
    configuration.write_text(json.dumps({"profiles": {BUCKET: profile}}))
    os.environ |= {
        "AWS_ENDPOINT_URL": url,
        "S3_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "MSC_CONFIG": str(configuration),
    }


def upload(folder: Path, kinds: Sequence[str], libraries: Sequence[str]) -> None:
    """Copy the shards and the other formats to the server, and prepare the shards there."""
    from loader import EPath

    endings = ("", *(f"-{name_of(library)}" for library in CONVERTING if library in libraries))
    for kind in kinds:
        for ending in endings:
            files = (folder / f"{kind}{ending}").glob("*.tar" if not ending else "*")
            for path in sorted(path for path in files if path.is_file()):
                EPath(path).copy(EPath(f"s3://{BUCKET}/{kind}{ending}/{path.name}"))
        options = ("--non-interactive", "--no-progress", "--compat", "--split-ratio", "1,0,0", *FIELDS[kind])
        run([Path(sys.executable).with_name("energon"), "prepare", *options, f"s3://{BUCKET}/{kind}"])


def name_of(library: str) -> str:
    """Return the ending of the folder of a library's copy."""
    return library.removeprefix("mosaicml-")


def signed_urls(folder: str = "", ending: str = "") -> list[str]:
    """Return signed URLs of the objects in a folder."""
    import obstore
    from obstore.store import S3Store

    store = S3Store(BUCKET, endpoint=os.environ["AWS_ENDPOINT_URL"], client_options={"allow_http": True})
    keys = sorted(entry["path"] for page in obstore.list(store, folder or None) for entry in page)
    return [obstore.sign(store, "GET", key, dt.timedelta(days=1)) for key in keys if key.endswith(ending)]


@contextmanager
def slow_relay(target_port: int, latency_s: float) -> Iterator[str]:
    port = free_port()
    script = Path(__file__).with_name("slow_relay.py")
    command = [sys.executable, str(script), str(port), str(target_port), str(latency_s)]
    with subprocess.Popen(command) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def measure(
    bench: Bench, jobs: Sequence[Job], rounds: int, scratch: Path, front: NginxFront | None
) -> tuple[dict[Job, list[Figures]], dict[Job, str]]:
    """Run the jobs once per round, with empty folders for temporary files; skip a job after a failure."""
    figures: dict[Job, list[Figures]] = {}
    failures: dict[Job, str] = {}
    for number in range(rounds):
        for job in jobs:
            if job in failures:
                continue
            if front is not None:
                front.new_requests()
            try:
                found = measure_one(bench, job, scratch)
            except CommandFailedError as error:
                failures[job] = str(error)
                print(f"round {number + 1}, {job}: {error}", file=sys.stderr, flush=True)
                continue
            if front is not None:
                requests, sent_bytes = front.new_requests()
                found |= {"requests": requests.total(), "heads": requests["HEAD"], "megabytes": sent_bytes / 1e6}
            figures.setdefault(job, []).append(found)
            shown = ", ".join(f"{name} {value:,.2f}" for name, value in found.items())
            print(f"round {number + 1}, {job}: {shown}", file=sys.stderr, flush=True)
    return figures, failures


def measure_one(bench: Bench, job: Job, scratch: Path) -> Figures:
    library, kind, workers = job
    with tempfile.TemporaryDirectory(dir=scratch) as temporary:
        os.environ["TMPDIR"] = temporary
        url = f"{'msc' if library == PEER else 's3'}://{BUCKET}/{kind}"
        if library in CONVERTING:
            url += f"-{name_of(library)}"
        options: list[str | Path] = ["--url", url, "--cache", Path(temporary, "cache")]
        if library == "webdataset":
            signed = Path(temporary, "signed")
            signed.write_text("\n".join(signed_urls(kind, ".tar")))
            options += ["--signed", signed]
        options += ["--samples", str(SIZES[kind].samples), "--workers", str(workers)]
        found: Figures = json.loads(run([*bench.command(library, "epoch", kind), *options]).stdout.splitlines()[-1])
        return found


def table(jobs: Sequence[Job], figures: dict[Job, list[Figures]]) -> list[list[str]]:
    """Return the cells of the table, with the headings first."""
    cells = [
        ["work", "library", "samples/s", "rounds", "of ours", "first batch", "CPU a sample", "requests", "HEAD", "MB"]
    ]
    for job in jobs:
        runs = figures.get(job)
        if not runs:
            continue
        library, kind, workers = job
        median = {name: statistics.median(one[name] for one in runs) for name in runs[0]}
        ours = figures.get((OURS, kind, workers))
        ratio = f"{statistics.median(one['rate'] for one in ours) / median['rate']:.1f}×" if ours else "–"
        cells.append(
            [
                f"{WORK[kind]}, {workers} workers",
                library,
                f"{median['rate']:,.0f}",
                ", ".join(f"{one['rate']:,.0f}" for one in runs),
                "–" if library == OURS else ratio,
                f"{median['first']:.2f} s",
                f"{median['processor']:,.0f} µs",
                *(f"{median[name]:,.0f}" if name in median else "–" for name in ("requests", "heads", "megabytes")),
            ]
        )
    return cells


if __name__ == "__main__":
    sys.exit(main())
