"""Change files at random, use them, and report what is not an error of this library.

A case is its number: ``python -m tests.fuzz.run --case 7`` runs number 7 again, with its traceback. A failure is
another exception, a hang of 30 seconds, 2 GB of memory, a control character in what is printed, raised, logged or
warned of, output of ``--json`` that is not JSON, or a file outside of the dataset, which code that ran would write.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import re
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import torch

from loader.errors import EnergonError
from tests.fuzz.files import write_files
from tests.fuzz.mutations import mutate
from tests.fuzz.steps import Step
from tests.fuzz.uses import USES

_HANG_S = 30
_START_S = 120
_MAX_BYTES = 2 << 30
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_ROOT = Path(__file__).parents[2]


def fuzz(seconds: float, *, first: int = 0) -> list[str]:
    """Run cases for some seconds, in child processes, and return the failures."""
    failures: list[str] = []
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="energon-fuzz-") as root:
        (Path(root) / "pristine").mkdir()
        write_files(Path(root) / "pristine")
        case = first
        while time.monotonic() < until:
            case = _run_child(Path(root), case, until, failures) + 1
    print(f"{case - first} cases, {len(failures)} failures")
    return failures


def _run_child(root: Path, case: int, until: float, failures: list[str]) -> int:
    """Run cases in one process until time is up or a case ends or blocks it; return the last case."""
    command = [sys.executable, "-m", "tests.fuzz.run", "--child", str(root), "--case", str(case)]
    for name in ("cwd", "home", "temp"):
        (root / name).mkdir(exist_ok=True)
    paths = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = os.environ | {"PYTHONPATH": paths, "HOME": str(root / "home"), "TMPDIR": str(root / "temp")}
    with subprocess.Popen(
        command, cwd=root / "cwd", env=variables, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as child:
        assert child.stdout is not None
        limit = _START_S
        poller = select.poll()  # takes any file descriptor, unlike select
        poller.register(child.stdout, select.POLLIN)
        while time.monotonic() < until:
            if not poller.poll(limit * 1000):
                failures.append(f"case {case}: no end within {limit} s")
                break
            line = child.stdout.readline()
            if not line:
                failures.append(f"case {case}: the process ended with code {child.wait()}")
                break
            limit = _HANG_S
            kind, number, text = line.rstrip("\n").split(" ", 2)
            case = int(number)
            if kind == "failure":
                failures.append(f"case {case}: {text}")
                print(failures[-1], flush=True)
        child.kill()
    return case


def _serve(root: Path, case: int) -> None:
    logging.lastResort = None
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(
            0, {random.choice(sorted(os.sched_getaffinity(0)))}
        )  # so that no case starts a pool of workers
    torch.set_num_threads(1)
    used = int(re.search(r"VmData:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10  # type: ignore[index]
    resource.setrlimit(resource.RLIMIT_DATA, (used + _MAX_BYTES,) * 2)
    while True:
        print(f"case {case} -", flush=True)
        for failure in run_case(root, case):
            print(f"failure {case} {failure.encode('ascii', 'backslashreplace').decode()!r}", flush=True)
        case += 1


def run_case(root: Path, case: int, *, verbose: bool = False) -> list[str]:
    """Run one case, and return its failures."""
    chance = random.Random(case)
    use = USES[case % len(USES)]
    folder = root / "case"
    shutil.rmtree(folder, ignore_errors=True)
    _copy_files(root / "pristine", folder, use.needs)
    files = sorted({path for pattern in use.files for path in folder.glob(pattern) if path.is_file()})
    for path in chance.sample(files, min(len(files), chance.choice((1, 1, 2)))):
        times = path.stat()
        path.write_bytes(mutate(path.read_bytes(), chance, path.suffix))
        if chance.random() < 0.5:  # as if the file were not touched since prepare
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        if verbose:
            print("changed", path)
    before = _files_around(root)
    failures = []
    for step in chance.sample(use.steps, min(len(use.steps), chance.choice((1, 2, 3)))):
        failures += _run_step(step, folder, verbose=verbose)
    others = _files_around(root) - before
    if others:
        failures.append(f"files outside of the dataset: {sorted(others)[:3]}")
    return failures


def _copy_files(pristine: Path, folder: Path, needs: set[str]) -> None:
    def ignored(place: str, names: list[str]) -> list[str]:
        is_top = needs and place == str(pristine)
        return [name for name in names if is_top and not any(name.startswith(one) for one in needs)]

    shutil.copytree(pristine, folder, ignore=ignored)


def _run_step(step: Step, folder: Path, *, verbose: bool) -> list[str]:
    text, failures, logged = "", [], _Collected()
    warned: list[Warning | str] = []
    logging.getLogger().addHandler(logged)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, *_: warned.append(message)
            text = step(folder)
    except EnergonError as error:
        text = str(error)
    except Exception as error:  # noqa: BLE001 - what the fuzzer looks for
        if verbose:
            traceback.print_exc()
        place = traceback.extract_tb(error.__traceback__)[-1]
        failures.append(f"{type(error).__name__}: {str(error)[:200]} ({place.filename}:{place.lineno})")
    finally:
        logging.getLogger().removeHandler(logged)
    text = "\n".join((text, *logged.texts, *map(str, warned)))
    if verbose:
        print(text)
    if "this is a bug" in text or "Traceback (most recent" in text:
        failures.append(f"a fault of the program: {text[:300]}")
    unsafe = _UNSAFE.search(text)
    if unsafe:
        failures.append(f"a control character in the output: {text[max(0, unsafe.start() - 150) : unsafe.end() + 150]}")
    return failures


class _Collected(logging.Handler):
    """Collects the texts of log records."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def _files_around(root: Path) -> set[str]:
    return {str(path) for name in ("cwd", "home", "pristine") for path in (root / name).rglob("*")} | set(
        os.listdir(root)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--first", type=int, default=None, help="number of the first case")
    parser.add_argument("--case", type=int, help="run only this case")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        _serve(arguments.child, arguments.case)
    if arguments.case is not None:
        with tempfile.TemporaryDirectory() as root:
            (Path(root) / "pristine").mkdir()
            write_files(Path(root) / "pristine")
            return bool(run_case(Path(root), arguments.case, verbose=True))
    first = random.SystemRandom().randrange(1 << 40) if arguments.first is None else arguments.first
    print(f"first case: {first}", flush=True)
    return bool(fuzz(arguments.seconds, first=first))


if __name__ == "__main__":
    sys.exit(main())
