"""Count the Python calls that a small sample costs, from its chunk to its batch.

usage: python benchmarks/count_calls.py [--functions] [--work-folder FOLDER]

Write a JSONL file, and a dataset of tar shards with a json part a sample; load both without worker processes, with a
cooker and the default batch. A profile function counts each call of a Python function. Calls of the user's cooker, and
those that it makes, do not count: every loader has to make them. Chunks have up to 1,024 samples, so what happens once
a chunk adds little.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import loader
from loader.format.jsonl.index import prepare_jsonl
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from loader.storage import open_parent

SAMPLES = 8_192
BATCH_SIZE = 16
LANES = 4
WARM_UP_BATCHES = 512  # until files are open, and chunks have their full size
BATCHES = 512


def cook_text(sample: Any) -> loader.TextSample:
    return loader.TextSample(**loader.basic_sample_keys(sample), text=sample["json"]["text"])


class Encoder(loader.DefaultTaskEncoder[Any, Any, Any, Any]):
    """Batches of cooked texts."""

    cookers = (loader.Cooker(cook_text),)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", action="store_true", help="list the functions and their calls a sample")
    parser.add_argument("--work-folder", type=Path, help="keep the datasets here; by default a temporary folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.work_folder or Path(temporary)
        for name, path in (("jsonl", write_lines(folder)), ("json in tar", write_shard(folder / "tar"))):
            calls = count_calls(path)
            print(f"{name}: {calls.total() / (BATCHES * BATCH_SIZE):.1f} calls a sample")
            if arguments.functions:
                for code, number in calls.most_common(60):
                    print(f"    {number / (BATCHES * BATCH_SIZE):6.2f}  {code.co_qualname}, {code.co_filename}")


def contents() -> list[bytes]:
    return [json.dumps({"id": number, "text": f"text {number}"}).encode() for number in range(SAMPLES)]


def write_lines(folder: Path) -> Path:
    path = folder / "texts.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in contents()))
    prepare_jsonl(*open_parent(path))
    return path


def write_shard(folder: Path) -> Path:
    folder.mkdir()
    with tarfile.open(folder / "shard_0.tar", "w") as tar:
        for number, content in enumerate(contents()):
            header = tarfile.TarInfo(f"{number:06d}.json")
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
    run_prepare(PreparePlan(path=str(folder), workers=1, split=SplitRequest(ratio={"train": 1})))
    return folder


def count_calls(path: Path) -> Counter[CodeType]:
    """Return the number of calls of each function while batches are loaded."""
    dataset = loader.get_train_dataset(
        path,
        batch_size=BATCH_SIZE,
        shuffle_buffer_size=100,
        max_samples_per_sequence=100,
        task_encoder=Encoder(),
        worker_config=loader.WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=LANES),
    )
    batches = iter(loader.get_loader(dataset))
    for _ in itertools.islice(batches, WARM_UP_BATCHES):
        pass
    calls: Counter[CodeType] = Counter()
    depth = 0  # of the calls that the user's hook makes

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal depth
        if event == "call":
            if depth or frame.f_code is cook_text.__code__:
                depth += 1
            else:
                calls[frame.f_code] += 1
        elif event == "return" and depth:
            depth -= 1

    sys.setprofile(profile)
    for _ in itertools.islice(batches, BATCHES):
        pass
    sys.setprofile(None)
    return calls


if __name__ == "__main__":
    main()
