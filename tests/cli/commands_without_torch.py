"""Run commands in a process in which torch is hidden: arguments from standard input, results to standard output.

The server of ``browse`` runs in a fork; the files of ``mount`` are read without libfuse, which may be missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import urllib.request
from collections.abc import Sequence

from energon_cli.main import main
from loader.engine import workers
from loader.inspect.mount import Naming, open_tree


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


if __name__ == "__main__":
    workers._has_one_thread = lambda: True  # commands fork their workers, which cannot import torch, either
    results = [run(arguments) for arguments in json.load(sys.stdin)]
    json.dump([results, page(sys.argv[1]), file_names(sys.argv[1])], sys.stdout)
