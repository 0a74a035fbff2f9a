"""Measure reading from the Hugging Face Hub: requests, bytes and speed, on a hub of the tests on this machine.

usage: python benchmarks/bench_hub.py [--only NAME]… [--work-folder FOLDER] [--seconds N] [--plan PLAN]

nodes    32 simulated nodes of two processes with four readers each begin together, and read 2,000 tars in a run's order
prepare  bytes that the prepare of picture tars reads, of all their bytes
web      a loader on hf:// against the same tars on https://, with 20 ms before each answer, in turns
stream   a loader on hf:// against `datasets` with streaming, shuffled, in turns
webshart a loader, shuffled, against webshart in stored order, on a local copy of the tars, bytes as they are, in turns;
         --webshart names the Python of an environment with webshart 0.4
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from hub_data import sparse_shards
from report import machine_facts, print_table

from tests.hub_server import FaultPlan, HubServer, hub_server

HERE = Path(__file__).parent
NODES, PROCESSES, READERS = 32, 2, 4
SHARDS = 2000
RATE = 3.0  # samples a second of a reader: 768 of all


def nodes(work: Path, arguments: argparse.Namespace) -> list[list[str]]:
    """Read by simulated nodes; return rows of the table."""
    sparse_shards(work / "sparse", SHARDS)
    with hub_server() as hub:
        token = hub.add_user("runner", plan=arguments.plan)
        hub.create("datasets", "me/large").commit(work / "sparse", hashed=False)
        lanes = NODES * PROCESSES * READERS
        processes = []
        for process in range(NODES * PROCESSES):
            environment = os.environ | {
                "HF_ENDPOINT": hub.url,
                "HF_TOKEN": token,
                "ENERGON_CACHE_DIR": str(work / f"node_{process // PROCESSES}"),
                "ENERGON_CACHE_BYTES": "1GB",
                "OMP_NUM_THREADS": "1",
            }
            command = ["hf://datasets/me/large", lanes, process * READERS, READERS, arguments.seconds, RATE]
            processes.append(
                subprocess.Popen(
                    [sys.executable, str(HERE / "hub_node.py"), *map(str, command)],
                    stdout=subprocess.PIPE,
                    text=True,
                    env=environment,
                )
            )
        figures = [json.loads(process.communicate()[0]) for process in processes]
        listings = sum(request.path.startswith("/api/datasets/me/large/tree/") for request in hub.log)
        pages = -(-SHARDS // 1000)  # a listing is so many requests
        resolved = Counter(request.path for request in hub.log if request.kind == "resolver")
        refused = hub.count(status=429)
        api = hub.count(kind="api")
    reads = sum(each["reads"] for each in figures)
    reader_s = lanes * arguments.seconds
    waited = sum(each["waited_s"] for each in figures) / reader_s
    slow = sum(each["slow_s"] for each in figures) / reader_s
    faults = [fault for each in figures for fault in each["faults"]]
    name = f"{NODES} nodes, {lanes} readers, {arguments.seconds:.0f} s, limits of the plan {arguments.plan}"
    most = max(resolved.values())
    return [
        [
            f"{name}: answers with status 429",
            f"{refused} (of {api} to the API, {resolved.total()} to the resolver)",
            "0",
        ],
        [f"{name}: listings a node", f"{listings / pages / NODES:.2f}", "≤ 1"],
        [f"{name}: most requests to resolve one shard, by {NODES} nodes", str(most), f"≤ {NODES}"],
        [
            f"{name}: share of time that threads waited for the pace; in reads above 1 s",
            f"{waited:.2%}; {slow:.2%}",
            "",
        ],
        [f"{name}: reads; failed reads", f"{reads:,}; {len(faults)}", "0 failed"],
        [
            f"{name}: requests to the resolver an hour at this rate",
            f"{resolved.total() * 3600 / arguments.seconds:,.0f}",
            "",
        ],
    ]


def prepare(work: Path, arguments: argparse.Namespace) -> list[list[str]]:  # noqa: ARG001 - as all
    """Prepare picture tars; return rows of the table."""
    import io
    import tarfile

    folder = work / "pictures"
    if not folder.exists():
        folder.mkdir(parents=True)
        for shard in range(4):
            with tarfile.open(folder / f"s_{shard}.tar", "w") as tar:
                for sample in range(250):
                    for part, data in (("jpg", os.urandom(400_000)), ("txt", b"a caption of some words")):
                        member = tarfile.TarInfo(f"{shard}_{sample:04d}.{part}")
                        member.size = len(data)
                        tar.addfile(member, io.BytesIO(data))
    with hub_server() as hub:
        hub.create("datasets", "me/pictures").commit(folder)
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "energon_cli", "prepare", "hf://datasets/me/pictures", "--non-interactive",
             "--split-ratio", "1,0,0", "--meta-folder", str(work / f"meta_{time.time_ns()}")],
            env=os.environ | {"HF_ENDPOINT": hub.url}, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        seconds = time.perf_counter() - started
        read = sum(request.sent_bytes for request in hub.log)
        requests = Counter(request.kind for request in hub.log)
    total = sum(path.stat().st_size for path in folder.iterdir())
    cells = f"{read / total:.2%} in {seconds:.1f} s, {dict(requests)}"
    return [["prepare, 1,000 samples of 400 kB: bytes read of the tars' bytes", cells, "≤ 2 %"]]


_LOAD = """
import sys, time
started = time.perf_counter()
from loader import DefaultTaskEncoder, SampleDecoder, WorkerConfig, get_savable_loader, get_train_dataset

class Pictures(DefaultTaskEncoder):
    decoder = SampleDecoder(image_decode="rgb8")

url, meta, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
dataset = get_train_dataset(
    url, worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers), batch_size=None, repeat=False,
    shuffle_buffer_size=1000, max_samples_per_sequence=100, meta_folder=meta, task_encoder=Pictures(),
)
with get_savable_loader(dataset) as loader:
    samples, first, begun = 0, None, time.perf_counter()
    for sample in loader:
        samples += 1
        assert sample["jpg"].shape == (256, 256, 3)
        first = first or time.perf_counter()
print(first - started, samples / (time.perf_counter() - begun))
"""

_STREAM = """
import sys, time
started = time.perf_counter()
import numpy as np
from datasets import load_dataset
from torch.utils.data import DataLoader

def array(sample):
    return sample | {"jpg": np.asarray(sample["jpg"])}

dataset = load_dataset(sys.argv[1], split="train", streaming=True).shuffle(seed=0, buffer_size=1000).map(array)
workers = int(sys.argv[2])
samples, first, begun = 0, None, time.perf_counter()
for sample in DataLoader(dataset, batch_size=None, num_workers=workers) if workers else dataset:
    samples += 1
    assert np.asarray(sample["jpg"]).shape == (256, 256, 3)
    first = first or time.perf_counter()
print(first - started, samples / (time.perf_counter() - begun))
"""


def _run(
    script: str, *arguments: object, python: Path | str = sys.executable, **environment: str
) -> tuple[float, float]:
    output = subprocess.run(
        [str(python), "-c", script, *map(str, arguments)],
        env=os.environ | environment, check=True, stdout=subprocess.PIPE, text=True,
    ).stdout  # fmt: skip
    first_s, rate = map(float, output.split()[-2:])
    return first_s, rate


def _small(work: Path) -> Path:
    """Return a folder of tars of photographs and captions."""
    folder = work / "small"
    if not folder.exists():
        import io
        import tarfile

        from PIL import Image

        (folder / "train").mkdir(parents=True)
        for shard in range(8):
            with tarfile.open(folder / f"train/s_{shard}.tar", "w") as tar:
                for sample in range(500):
                    picture = io.BytesIO()
                    Image.effect_noise((256, 256), 40 + sample % 40).convert("RGB").save(picture, "JPEG")
                    for part, data in (("jpg", picture.getvalue()), ("txt", b"a caption")):
                        member = tarfile.TarInfo(f"{shard}_{sample:04d}.{part}")
                        member.size = len(data)
                        tar.addfile(member, io.BytesIO(data))
    return folder


def _prepared(work: Path, hub: HubServer) -> Path:
    meta = work / f"meta_{time.time_ns()}"
    subprocess.run(
        [sys.executable, "-m", "energon_cli", "prepare", "hf://datasets/me/small", "--non-interactive",
             "--split-ratio", "1,0,0", "--meta-folder", str(meta)],
        env=os.environ | {"HF_ENDPOINT": hub.url}, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return meta


def web(work: Path, arguments: argparse.Namespace) -> list[list[str]]:
    """Load from hf:// and https:// in turns; return rows of the table."""
    folder = _small(work)
    rows = []
    with hub_server() as hub:
        hub.create("datasets", "me/small").commit(folder)
        meta = _prepared(work, hub)
        # The same tars at the same server, as files that it sends itself.
        hub.sends_small_files, hub.limits.is_on = True, False
        commit = hub.create("datasets", "me/plain").commit(folder, is_lfs=lambda _path, _size: False)
        plain = f"{hub.url}/datasets/me/plain/resolve/{commit}"
        hub.faults = FaultPlan(latency_s=0.02)
        for workers in (0, 2):
            pairs = []
            for _ in range(arguments.rounds):
                ours = _run(_LOAD, "hf://datasets/me/small", meta, workers, HF_ENDPOINT=hub.url)
                theirs = _run(_LOAD, plain, meta, workers, HF_ENDPOINT=hub.url)
                pairs.append((ours[1] / theirs[1], ours[1], theirs[1]))
            ratio, ours_rate, theirs_rate = (statistics.median(values) for values in zip(*pairs, strict=True))
            cells = f"{ratio:.2f} × ({ours_rate:,.0f} and {theirs_rate:,.0f} samples/s)"
            rows.append([f"hf:// against http://, 20 ms, {workers} workers", cells, "≥ 0.95 ×"])
    return rows


def stream(work: Path, arguments: argparse.Namespace) -> list[list[str]]:
    """Load from hf:// and by `datasets` in turns; return rows of the table."""
    folder = _small(work)
    rows = []
    with hub_server() as hub:
        hub.create("datasets", "me/small").commit(folder)
        meta = _prepared(work, hub)
        for workers in (0, 2):
            figures = []
            for _ in range(arguments.rounds):
                ours = _run(_LOAD, "hf://datasets/me/small", meta, workers, HF_ENDPOINT=hub.url)
                home = str(work / f"hf_{time.time_ns()}")
                theirs = _run(_STREAM, "me/small", workers, HF_ENDPOINT=hub.url, HF_HOME=home)
                figures.append((ours[1], theirs[1], ours[1] / theirs[1], ours[0], theirs[0]))
            rate, their_rate, ratio, first_s, their_s = map(statistics.median, zip(*figures, strict=True))
            cells = f"{ratio:.2f} × ({rate:,.0f} and {their_rate:,.0f} samples/s)"
            rows += [
                [f"hf:// against datasets, shuffled over 1,000 samples, arrays, {workers} workers", cells, "ahead"],
                ["seconds to the first sample, with all imports", f"{first_s:.1f} and {their_s:.1f}", "ahead"],
            ]
    return rows


_RAW = """
import sys, time
from loader import DefaultTaskEncoder, WorkerConfig, get_savable_loader, get_train_dataset

class Bytes(DefaultTaskEncoder):
    decoder = None

begun = time.perf_counter()
dataset = get_train_dataset(
    sys.argv[1], worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0), batch_size=None, repeat=False,
    shuffle_buffer_size=1000, max_samples_per_sequence=100, task_encoder=Bytes(),
)
with get_savable_loader(dataset) as loader:
    samples, first = 0, None
    for sample in loader:
        samples += 1
        first = first or time.perf_counter()
print(first - begun, samples / (time.perf_counter() - begun))
"""

_WEBSHART = """
import os, sys, time
import webshart
source, metadata = sys.argv[1:3]
if not os.path.exists(metadata):
    webshart.MetadataExtractor().extract_metadata(source=source, destination=metadata, max_workers=2)
begun = time.perf_counter()
dataset = webshart.discover_dataset(source=source, metadata=metadata)
samples, first = 0, None
for file in webshart.TarDataLoader(dataset, load_file_data=True, buffer_size=100):
    samples += len(file.data) > 0 and file.path.endswith(".jpg")
    first = first or time.perf_counter()
print(first - begun, samples / (time.perf_counter() - begun))
"""


def webshart(work: Path, arguments: argparse.Namespace) -> list[list[str]]:
    """Load a local copy by this library and by webshart in turns; return rows of the table."""
    if arguments.webshart is None:
        return []
    folder = work / "local"
    if not folder.exists():
        shutil.copytree(_small(work) / "train", folder)
        command = ["prepare", str(folder), "--non-interactive", "--split-ratio", "1,0,0"]
        subprocess.run([sys.executable, "-m", "energon_cli", *command], check=True, stdout=subprocess.DEVNULL)
    figures = []
    for _ in range(arguments.rounds):
        ours = _run(_RAW, folder)
        theirs = _run(_WEBSHART, _small(work) / "train", work / "webshart", python=arguments.webshart)
        figures.append((ours[1], theirs[1], ours[1] / theirs[1], ours[0], theirs[0]))
    rate, their_rate, ratio, first_s, their_s = map(statistics.median, zip(*figures, strict=True))
    return [
        [
            "shuffled, against webshart in order",
            f"{ratio:.2f} × ({rate:,.0f} and {their_rate:,.0f} samples/s)",
            "ahead",
        ],
        ["seconds to the first sample, without imports", f"{first_s:.3f} and {their_s:.3f}", "ahead"],
    ]


PARTS: dict[str, Callable[[Path, argparse.Namespace], list[list[str]]]] = {
    "nodes": nodes, "prepare": prepare, "web": web, "stream": stream, "webshart": webshart,
}  # fmt: skip


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--work-folder", type=Path, default=Path("build/bench_hub"))
    parser.add_argument("--seconds", type=float, default=600.0, help="of the simulated nodes")
    parser.add_argument("--plan", default="free", help="whose limits hold for the simulated nodes")
    parser.add_argument("--webshart", type=Path, help="Python of an environment with webshart")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    arguments.work_folder.mkdir(parents=True, exist_ok=True)
    rows = [row for name in arguments.only for row in PARTS[name](arguments.work_folder.resolve(), arguments)]
    facts = machine_facts()
    print(f"{facts['date']}, {facts['cores']} cores of {facts['processor']}, load {os.getloadavg()[0]:.0f}\n")
    print_table([["what", "measured", "to reach"], *rows])


if __name__ == "__main__":
    main()
