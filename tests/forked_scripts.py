"""Run scripts as processes that have imported torch and this library: forks of one that did so once."""

from __future__ import annotations

import atexit
import gc
import json
import os
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

IMPORTED = ("numpy", "torch", "torch.utils.data", "loader.training.loaders.get_loader")


class ForkedScripts:
    """A process that forks for each script.

    A script is ``__main__``, with its own folder first in ``sys.path``, as under ``python script.py``. Warnings are
    errors, also those of the imports. The end of a script is that of Python: threads are joined, exit functions run,
    and the script's objects are destroyed. Only the imported modules are left to the system, since taking them apart
    takes half a second of processor time.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, script: Path, *, folder: Path, warnings: str = "error", whole_end: bool = False) -> str:
        """Run a script in a folder, as the only rank there is; returns what it prints.

        With ``whole_end``, Python takes also the imported modules apart in the end.
        """
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ranks = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        out, err = script.with_suffix(".out"), script.with_suffix(".err")
        request = {"script": str(script), "folder": str(folder), "environment": ranks, "whole_end": whole_end}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(
            json.dumps(request | {"warnings": warnings, "out": str(out), "err": str(err)}),
            file=self._process.stdin,
            flush=True,
        )
        assert self._process.stdout.readline() == "0\n", err.read_text(encoding="utf-8")
        return out.read_text(encoding="utf-8")


@contextmanager
def forked_scripts() -> Iterator[ForkedScripts]:
    # Coverage warns where it finds the data of a killed process half written; a page's workers would fail by that.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    command = [sys.executable, "-W", "error", __file__]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield ForkedScripts(process)
        process.communicate(timeout=60)
    assert process.returncode == 0


def serve(requests: IO[str]) -> dict[str, Any] | None:
    """Fork for each request; returns it in the fork, and None in this process after the last one."""
    while line := requests.readline():
        process = os.fork()
        if not process:
            request: dict[str, Any] = json.loads(line)
            return request
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return None


def run_as_main(request: Mapping[str, Any]) -> None:
    """Run a script as the main module of this process."""
    for number, (name, flags) in enumerate(
        (
            (os.devnull, os.O_RDONLY),
            (request["out"], os.O_WRONLY | os.O_CREAT),
            (request["err"], os.O_WRONLY | os.O_CREAT),
        )
    ):
        file = os.open(name, flags, 0o600)
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    script = request["script"]
    sys.argv = [script]
    sys.path[0] = os.path.dirname(script)
    if request["warnings"] != "error":
        sys.warnoptions[:] = [request["warnings"]]
        import_module("warnings").simplefilter(request["warnings"])
    main = types.ModuleType("__main__")
    main.__file__ = script
    sys.modules["__main__"] = main
    exec(compile(Path(script).read_bytes(), script, "exec"), vars(main))


def end(main: types.ModuleType) -> None:
    """End this process as Python ends, but leave the imported modules to the system."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    vars(main).clear()
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    for module in IMPORTED:
        import_module(module)
    import_module("energon_cli.library").provide()  # environments that were installed earlier lack the package
    gc.freeze()  # no collection in a fork visits, and so copies, what is imported
    given = serve(sys.stdin)
    if given is not None:
        run_as_main(given)
        if not given["whole_end"]:
            end(sys.modules["__main__"])
