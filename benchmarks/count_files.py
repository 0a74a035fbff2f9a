"""Count the files of ``loader/`` that a default batch passes, from building the dataset to the batches of two workers.

usage: python benchmarks/count_files.py [--functions] [--work-folder FOLDER]

Write and prepare a small dataset of photographs, then load batches of it with the default task encoder. A profile
function notes the file of each function of ``loader`` that is called: in this process, in its threads and in the forked
workers. Calls made by an import (decorators, class bodies) or by a fork, and generated code (``__init__`` of
dataclasses) do not count. The files are grouped by the rooms of ``docs/explanation/architecture.md``; those of the
statistics, which a batch does not pass, are not part of the total.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import multiprocessing.popen_fork
import os
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

from demo_photographs import make_dataset

import loader
from loader.format.prepare.plan import PreparePlan, SplitRequest
from loader.format.prepare.run import run_prepare

ROOMS = (
    "order",
    "dataset",
    "format/index",
    "storage",
    "pipeline/reading",
    "samples/decoding",
    "samples/building",
    "pipeline/stages",
    "samples/batching",
    "training/workers",
    "training/loaders",
)
OTHERS = "others"
OBSERVERS = ("pipeline/measuring", "training/stats")
"""Rooms that a batch does not pass: they measure the others."""
PACKAGE = f"{Path(loader.__file__).parent}{os.sep}"
WORKERS = 2
BATCHES = 8
DATASET_YAML = """\
sample_type:
  __module__: megatron.energon
  __class__: CaptioningSample
field_map:
  image: jpg
  caption: json[caption]
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", action="store_true", help="list the functions called in each file")
    parser.add_argument("--work-folder", type=Path, help="keep the dataset here; by default a temporary folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.work_folder or Path(temporary)
        dataset = folder / "photographs"
        prepare_photographs(dataset)
        with CallLog(folder / "calls.txt") as calls:
            load_batches(dataset)
        print_rooms(calls.functions(), with_functions=arguments.functions)


def prepare_photographs(folder: Path) -> None:
    """Write, index and split a dataset of captioned photographs."""
    make_dataset(folder)
    files = {"dataset.yaml": DATASET_YAML}
    run_prepare(PreparePlan(path=str(folder), workers=1, split=SplitRequest(ratio={"train": 1}), files=files))


def load_batches(folder: Path) -> None:
    """Load some shuffled batches with the default task encoder, in worker processes."""
    dataset = loader.get_train_dataset(
        folder,
        batch_size=4,
        shuffle_buffer_size=16,
        max_samples_per_sequence=8,
        worker_config=loader.WorkerConfig(rank=0, world_size=1, num_workers=WORKERS),
    )
    for _ in itertools.islice(loader.get_savable_loader(dataset), BATCHES):
        pass


class CallLog:
    """Context in which each function of ``loader`` is logged once per process, when it is first called.

    Args:
        path: File that all processes append to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        self._seen: set[CodeType] = set()

    def __enter__(self) -> Self:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        os.close(self._file)

    def functions(self) -> dict[str, list[str]]:
        """Return path below ``loader/`` → names of the functions that were called."""
        found: dict[str, list[str]] = defaultdict(list)
        for line in sorted(set(self._path.read_text(encoding="utf-8").splitlines())):
            path, function = line.split("\t")
            found[path].append(function)
        return found

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code in self._seen or not code.co_filename.startswith(PACKAGE):
            return
        if is_function(code) and not is_importing(frame) and not is_forking(frame):
            self._seen.add(code)
            os.write(self._file, f"{code.co_filename.removeprefix(PACKAGE)}\t{code.co_qualname}\n".encode())


def is_function(code: CodeType) -> bool:
    """Return False for the body of a module or class."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED)


def is_forking(frame: FrameType | None) -> bool:
    """Return True within a function that was registered with :func:`os.register_at_fork`."""
    while frame is not None and frame.f_back is not None:
        caller = frame.f_back.f_code
        if caller.co_filename == multiprocessing.popen_fork.__file__ and frame.f_code.co_filename.startswith(PACKAGE):
            return True
        frame = frame.f_back
    return False


def is_importing(frame: FrameType | None) -> bool:
    """Return True if the body of a module is being executed, in this frame or in a caller."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False


def print_rooms(functions: dict[str, list[str]], *, with_functions: bool) -> None:
    """Print the files room by room, and their number."""
    rooms: dict[str, list[str]] = {room: [] for room in (*ROOMS, OTHERS, *OBSERVERS)}
    for path in sorted(functions):
        rooms[next((room for room in rooms if path.startswith(f"{room}/")), OTHERS)].append(path)
    for room, paths in rooms.items():
        print(f"{room}: {len(paths)}")
        for path in paths:
            print(f"    {path.removeprefix(f'{room}/')}")
            if with_functions:
                print(f"        {', '.join(functions[path])}")
    observers = sum(len(rooms[room]) for room in OBSERVERS)
    print(f"statistics: {observers} files")
    print(f"total: {len(functions) - observers} files")


if __name__ == "__main__":
    main()
