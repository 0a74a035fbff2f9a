"""Count the functions and files of the source that a default batch, or a command, passes on its way.

usage: python benchmarks/count_files.py [WAY …] [--files] [--functions] [--work-folder FOLDER]

The ways are ``batch``, ``prepare``, ``map`` and ``lint``; all by default. Each begins with a small dataset of
photographs. ``batch`` builds a training dataset of it and loads batches with the default task encoder; the others are
commands. A profile function notes each function of ``loader`` and ``energon_cli`` that is called: in this process, in
its threads and in the forked workers. Calls made by an import (decorators, class bodies) or by a fork, and generated
code (``__init__`` of dataclasses) do not count. The statistics of a loader, which a batch does not pass, are not part
of the total.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import itertools
import multiprocessing.popen_fork
import os
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

from demo_photographs import make_dataset

import energon_cli
import loader
from energon_cli.main import main as run_command
from loader.engine import workers as worker_pool
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare

OBSERVERS = ("loader/pipeline/measuring/", "loader/training/stats/")
"""Rooms that a batch does not pass: they measure the others."""
SOURCE = f"{Path(loader.__file__).parent.parent}{os.sep}"
PACKAGES = tuple(f"{Path(str(package.__file__)).parent}{os.sep}" for package in (loader, energon_cli))
WORKERS = 2
IN_WORKERS = ("--num-workers", str(WORKERS))
BATCHES = 8
DATASET_YAML = """\
sample_type:
  __module__: megatron.energon
  __class__: CaptioningSample
field_map:
  image: jpg
  caption: json[caption]
"""


MAPPED = """\
def length(sample):
    return {"length": len(sample.caption)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="*", metavar="WAY", help="batch, prepare, map or lint; all by default")
    parser.add_argument("--files", action="store_true", help="list the files, too")
    parser.add_argument("--functions", action="store_true", help="list the functions called in each file, too")
    parser.add_argument("--work-folder", type=Path, help="keep the datasets here; by default a temporary folder")
    arguments = parser.parse_args()
    if unknown := {*arguments.ways} - {*WAYS}:
        parser.error(f"no such way: {min(unknown)}; expected {', '.join(WAYS)}")
    with tempfile.TemporaryDirectory() as temporary:
        for way in arguments.ways or WAYS:
            folder = (arguments.work_folder or Path(temporary)) / way
            functions = functions_of(way, folder)
            if arguments.files or arguments.functions:
                print_rooms(functions, with_functions=arguments.functions)
            counted = [path for path in functions if not path.startswith(OBSERVERS)]
            total = sum(len(functions[path]) for path in counted)
            print(f"{way}: {total} functions in {len(counted)} files")


def functions_of(way: str, folder: Path) -> dict[str, list[str]]:
    """Run a way in a new folder; return path below ``loader`` or ``energon_cli`` → functions that were called."""
    folder.mkdir(parents=True)
    dataset = folder / "photographs"
    prepare, run = WAYS[way]
    prepare(dataset)
    # Fork the workers of commands in spite of torch, so that their calls are logged.
    worker_pool._has_one_thread = lambda: True  # noqa: SLF001
    with CallLog(folder / "calls.txt") as calls:
        run(dataset)
    return calls.functions()


def prepare_photographs(folder: Path) -> None:
    """Write, index and split a dataset of captioned photographs."""
    make_dataset(folder)
    files = {"dataset.yaml": DATASET_YAML}
    run_prepare(PreparePlan(path=str(folder), workers=1, split=SplitRequest(ratio={"train": 1}), files=files))


def run_command_on(*arguments: str) -> None:
    """Run a command, whose output is not shown."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as messages:
        status = run_command([*arguments])
    if status:
        raise SystemExit(messages.getvalue())


def map_photographs(folder: Path) -> None:
    """Write a column with the length of each picture."""
    script = folder.parent / "mapped.py"
    script.write_text(MAPPED)
    run_command_on("map", str(folder), f"{script}:length", "--write", "length", "--yes", *IN_WORKERS)


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
    """Context in which each function of the source is logged once per process, when it is first called.

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
        """Return path → names of the functions that were called."""
        found: dict[str, list[str]] = defaultdict(list)
        for line in sorted(set(self._path.read_text(encoding="utf-8").splitlines())):
            path, function = line.split("\t")
            found[path].append(function)
        return found

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code in self._seen or not code.co_filename.startswith(PACKAGES):
            return
        if is_function(code) and not is_importing(frame) and not is_forking(frame):
            self._seen.add(code)
            os.write(self._file, f"{code.co_filename.removeprefix(SOURCE)}\t{code.co_qualname}\n".encode())


def is_function(code: CodeType) -> bool:
    """Return False for the body of a module or class, and for comprehensions."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_name.endswith(("comp>", "genexpr>"))


def is_forking(frame: FrameType | None) -> bool:
    """Return True within a function that was registered with :func:`os.register_at_fork`."""
    while frame is not None and frame.f_back is not None:
        caller = frame.f_back.f_code
        if caller.co_filename == multiprocessing.popen_fork.__file__ and frame.f_code.co_filename.startswith(PACKAGES):
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
    """Print the files, folder by folder."""
    for folder, paths in itertools.groupby(sorted(functions, key=os.path.split), key=os.path.dirname):
        print(f"{folder}:")
        for path in paths:
            names = f": {', '.join(functions[path])}" if with_functions else ""
            print(f"    {os.path.basename(path)} ({len(functions[path])}){names}")


WAYS: dict[str, tuple[Callable[[Path], None], Callable[[Path], None]]] = {
    "batch": (prepare_photographs, load_batches),
    "prepare": (make_dataset, lambda folder: run_command_on("prepare", str(folder), "--yes", *IN_WORKERS)),
    "map": (prepare_photographs, map_photographs),
    "lint": (prepare_photographs, lambda folder: run_command_on("lint", str(folder), *IN_WORKERS)),
}
"""Name → what makes the dataset before the count begins, and what is counted."""

if __name__ == "__main__":
    main()
