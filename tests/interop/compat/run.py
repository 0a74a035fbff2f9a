"""Run scripts written for megatron-energon with it and with this library, and compare what they observe.

usage: python tests/interop/compat/run.py --peer-bin .venv-peer/bin [--work-folder FOLDER] [SCRIPT…]

Each script in `scripts/` imports `megatron.energon`, takes the folder of the datasets, and prints a JSON object of
facts (see `scripts/facts.py`). A fact that is not the same needs its reason in the script's `DIFFERS`. The reason is a
sentence of `docs/how-to/move-from-megatron-energon.md`, or several. `PROVES` names the sentences that facts check which
are the same. Exits with 1 if a fact fails here, differs without a reason, or if the page has no such sentence.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from write_datasets import write_datasets

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.interop.moving_page import PAGE, SCRIPTS, claims_of, joined

TIME_LIMIT = 180  # seconds a script
TRIES_THERE = 3  # the cache pool of megatron-energon waits for itself without end now and then
DID_NOT_END = {"script": "did not end"}


def main() -> None:
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as scratch:
        work = arguments.work_folder or Path(scratch)
        templates = work / "datasets"
        if not templates.exists():
            templates.mkdir(parents=True)
            write_datasets(templates, [sys.executable, "-m", "energon_cli"])
        peer = arguments.peer_bin / "python"
        results = [compare(script, templates, work, peer) for script in arguments.scripts or SCRIPTS]
    show(results)
    sys.exit(any(result.failures for result in results))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("scripts", nargs="*", type=Path)
    parser.add_argument("--peer-bin", type=Path, default=Path(".venv-peer/bin"))
    parser.add_argument("--work-folder", type=Path, help="keep the datasets here; by default a temporary folder")
    return parser.parse_args()


@dataclass
class Result:
    """The comparison of one script's facts."""

    script: str
    same: list[str] = field(default_factory=list)
    differing: dict[str, str] = field(default_factory=dict)  # fact → reason
    failures: dict[str, str] = field(default_factory=dict)  # fact → what was found


def compare(script: Path, templates: Path, work: Path, peer: Path) -> Result:
    """Run a script with both libraries, and compare the facts."""
    claims = claims_of(script)
    reasons, proves = claims["DIFFERS"], claims["PROVES"]
    theirs: dict[str, Any] = DID_NOT_END
    their_errors: dict[str, str] = {}
    for _ in range(TRIES_THERE):
        theirs, their_errors = run_script(script, str(peer), templates, work / f"peer-{script.stem}")
        if theirs != DID_NOT_END:
            break
    ours, our_errors = run_script(script, sys.executable, templates, work / f"ours-{script.stem}")
    result = Result(script.stem)
    page = joined(PAGE.read_text())
    for name in dict.fromkeys((*theirs, *ours, *reasons, *proves)):
        not_there = [sentence for sentence in (*reasons.get(name, ()), *proves.get(name, ())) if sentence not in page]
        if name == "script":  # one of the libraries ran no fact, perhaps neither
            result.failures[name] = f"here {our_errors.get(name, '-')}; there {their_errors.get(name, '-')}"
        elif name not in ours and name not in theirs:
            result.failures[name] = "DIFFERS or PROVES names it, but there is no such fact"
        elif not_there:
            result.failures[name] = f"not in {PAGE.name}: {not_there}"
        elif name in ours and name in theirs and ours[name] == theirs[name]:
            result.same.append(name)
            if name in reasons:
                result.failures[name] = "is the same, but DIFFERS has a reason: remove it"
            elif name in our_errors:
                result.failures[name] = f"raises in both: {our_errors[name]}"
        elif name not in reasons:
            found, expected = (our_errors.get(name, ours.get(name, "-")), their_errors.get(name, theirs.get(name, "-")))
            result.failures[name] = f"here {found!r}; there {expected!r}"
        elif name in our_errors and not reasons[name][0].startswith("Refused"):
            result.failures[name] = f"raises here: {our_errors[name]}"
        else:
            result.differing[name] = reasons[name][0]
    return result


def run_script(script: Path, python: str, templates: Path, folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Run a script on a fresh copy of the datasets; return its facts and the errors among them."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(templates, folder)
    theirs = python != sys.executable  # PYTHONPATH, if it is set, is that of this library
    environment = {name: value for name, value in os.environ.items() if not (theirs and name == "PYTHONPATH")}
    try:
        done = subprocess.run(
            [python, str(script), str(folder)], env=environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIME_LIMIT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        error = f"did not end within {TIME_LIMIT} s"
        return DID_NOT_END, {"script": error}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"script": f"exit {done.returncode}"}, {"script": done.stderr[-1500:]}
    report = json.loads(lines[-1])
    return report["facts"], report["errors"]


def show(results: list[Result]) -> None:
    """Print the table, and the details of what differs or fails."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    table = Table("script", "same", "differs", "fails")
    for result in results:
        table.add_row(result.script, *(str(len(part)) for part in (result.same, result.differing, result.failures)))
    console.print(table)
    for result in results:
        for name, reason in result.differing.items():
            console.print(f"differs  {result.script}.{name}: {reason}")
        for name, found in result.failures.items():
            console.print(f"fails    {result.script}.{name}: {found}")


if __name__ == "__main__":
    main()
