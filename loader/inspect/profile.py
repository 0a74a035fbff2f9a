"""Run a script in another process, whose loaders record their steps, and collect what they wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import StorageError
from ..training.stats.profile import PROFILE_VARIABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledLoader:
    """The statistics of one loader of the script.

    Attributes:
        name: Process and number of the loader, and its rank if there are several.
        numbers: The statistics as a flat dict, see ``LoaderStats.to_dict``.
    """

    name: str
    line: str
    suggestions: tuple[str, ...]
    numbers: dict[str, Any]

    def seconds(self, group: str) -> dict[str, float]:
        """Return the seconds of ``waited_for`` or ``workers`` by cause or activity, the longest first."""
        by_cause = {
            name.removeprefix(f"{group}/").removesuffix("_s"): value
            for name, value in self.numbers.items()
            if name.startswith(f"{group}/")
        }
        return dict(sorted(by_cause.items(), key=lambda item: -item[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptProfileReport:
    """The profile of a script.

    Attributes:
        loaders: Its loaders that delivered micro-batches, in the order in which they began.
    """

    exit_code: int
    loaders: tuple[ProfiledLoader, ...]


def profile_script(
    script: str,
    arguments: Sequence[str],
    *,
    steps: int,
    trace: str | os.PathLike[str],
    stats: str | os.PathLike[str] | None = None,
) -> ScriptProfileReport:
    """Run a Python script with profiles of its loaders. It is the caller's program: it is run as it is.

    Args:
        stats: File for the statistics of all loaders as JSON, which is replaced; None writes no file.
    """
    # Check all paths before the script runs.
    if not Path(script).is_file():
        raise StorageError("there is no such script", at=script)
    for path in (trace, stats):
        _check_file(path)  # now, not after the script
    # Run the script, and collect what its loaders wrote.
    with tempfile.TemporaryDirectory(prefix="energon-profile-") as folder:
        exit_code = _run([sys.executable, script, *arguments], os.environ | {PROFILE_VARIABLE: f"{steps}:{folder}"})
        loaders, events = [], []
        started = sorted((_started(path), path) for path in Path(folder).glob("*.stats.json"))
        for process_index, ((process, own_number), path) in enumerate(started):
            statistics = json.loads(path.read_text(encoding="utf-8"))
            name = f"loader {own_number} of process {process}"
            if statistics["ranks"] > 1:
                name += f", rank {statistics['rank']}"
            line, suggestions = statistics.pop("line"), tuple(statistics.pop("suggestions"))
            loaders.append(ProfiledLoader(name=name, line=line, suggestions=suggestions, numbers=statistics))
            events += _events_of(path, process_index, name)
    # Write the trace and the statistics.
    _write(trace, {"traceEvents": events, "displayTimeUnit": "ms"})
    if stats is not None:
        _write(stats, {"exit_code": exit_code, "loaders": [asdict(loader) for loader in loaders]})
    return ScriptProfileReport(exit_code=exit_code, loaders=tuple(loaders))


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    # A terminal interrupts the program, too, which ends in its own way, such as after it has saved a checkpoint.
    with subprocess.Popen(command, env=environment) as program:
        while True:
            with suppress(KeyboardInterrupt):
                return program.wait()


def _check_file(path: str | os.PathLike[str] | None) -> None:
    if path is None:
        return
    if Path(path).is_dir():
        raise StorageError("expected a file for the profile, found a folder", at=os.fspath(path))
    if not Path(path).absolute().parent.is_dir():
        raise StorageError("there is no folder for this file of the profile", at=os.fspath(path))


def _write(path: str | os.PathLike[str], document: Any) -> None:
    try:
        Path(path).write_text(json.dumps(document), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write a file of the profile: {error.strerror}", at=os.fspath(path)) from error


def _started(path: Path) -> tuple[int, int]:
    """Return the process of a loader, and its number there, from the name of its file."""
    _, process, loader_number = path.name.removesuffix(".stats.json").split("-")
    return int(process), int(loader_number)


def _events_of(stats: Path, process_index: int, name: str) -> list[dict[str, Any]]:
    """Return the events of a loader's trace, as a process of the common trace."""
    path = stats.with_name(stats.name.replace(".stats.json", ".trace.json"))
    events: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    for event in events:
        event["pid"] = process_index
        if event["name"] == "process_name":
            event["args"] = {"name": name}
    return events
