"""Run commands in a process in which packages are hidden: arguments from standard input, results to standard output.

For each dataset that is named, the results end with a page and with names of files. The server of ``browse`` runs in a
fork; the files of ``mount`` are read without libfuse, which may be missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from energon_cli.main import main
from loader.engine import workers
from loader.inspect.mount import Naming, open_tree
from tests.source_tree import ROOT


def run(arguments: Sequence[str]) -> tuple[int, str]:
    """Return the exit code and the output of a command, with the errors of processes that it starts."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        errors = os.dup(2)
        os.dup2(out.fileno(), 2)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                code = main(arguments)
        except SystemExit as end:  # profile ends as its script does
            code = int(end.code or 0)
        finally:
            os.dup2(errors, 2)
            os.close(errors)
        out.seek(0)
        return code, out.read()


def page(path: str) -> str:
    """Return what the server of ``browse`` says about the first sample of a dataset."""
    reading, writing = os.pipe()
    server = os.fork()
    if not server:
        os.dup2(writing, 1)
        os._exit(main(["browse", path, "--json", "--no-open", "--token", "secret"]))
    try:
        with open(reading, encoding="utf-8") as lines:
            start = json.loads(lines.readline())["url"].partition("/?")[0]
        request = urllib.request.Request(f"{start}/api/d/0/0", headers={"Authorization": "Bearer secret"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(answer.read().decode())
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)


def file_names(path: str) -> list[str]:
    tree = open_tree(path, Naming())
    try:
        return [*tree.names("/")]
    finally:
        tree.close()


def run_without(packages: Iterable[str], commands: Iterable[str], folder: Path, *datasets: str) -> list[Any]:
    """Return the code and the output of each command, without packages in it and in the processes that it starts.

    Pages and names of files of the datasets follow the list of results.
    """
    hidden = folder / "hidden"
    hidden.mkdir()
    names = dict.fromkeys(packages)
    (hidden / "sitecustomize.py").write_text(f"import sys; sys.modules.update({names})")
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.commands_without_packages", *datasets],
        input=json.dumps([command.split() for command in commands]),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{hidden}:{ROOT}"},
    )
    assert done.returncode == 0, done.stderr
    results: list[Any] = json.loads(done.stdout)
    return results


if __name__ == "__main__":
    workers._has_one_thread = lambda: True  # commands fork their workers, in which the packages are hidden, too
    results = [run(arguments) for arguments in json.load(sys.stdin)]
    shown = [show(path) for path in sys.argv[1:] for show in (page, file_names)]
    json.dump([results, *shown], sys.stdout)
