"""Run ``energon`` in shells and scripts, as forks of a process that has imported torch and this library."""

from __future__ import annotations

import atexit
import gc
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from tests.source_tree import ROOT

IMPORTED = ("torch", "PIL.JpegImagePlugin", "loader.mapping.run", "loader.mapping.new_shards")
PACKAGES = ("change", "look", "make")

CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
request = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
socket.send_fds(server, [json.dumps(request).encode() + b"\\n"], [0, 1, 2])
answers = server.makefile()
process = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: os.kill(process, number))
code = int(answers.readline() or -9)
sys.exit(code if code >= 0 else 128 - code)
"""
"""A program that has a request run, with its own streams, hands signals on, and ends with the exit code."""


class Server:
    """The process that forks for each command."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path = f"{self._folder.name}/socket"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forked_commands", self.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")},
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it listens

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()


@cache
def server() -> Server:
    server = Server()
    atexit.register(server.close)
    return server


def client() -> str:
    """Return the text of the program ``energon``."""
    return CLIENT.format(python=sys.executable, path=server().path)


@cache
def program() -> str:
    """Return the path of the program ``energon``; SIGKILL does not reach the fork that runs the command."""
    path = f"{os.path.dirname(server().path)}/energon"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o755), "w") as file:
        file.write(client())
    return path


def serve(path: str) -> None:
    """Fork for each client, until the standard input ends."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    print("listening", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for the forks
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if not os.fork():
            listener.close()
            answer(connection)
        connection.close()


def answer(connection: socket.socket) -> None:
    """Run the command of a client in a process of its own, and send its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, streams, *_ = socket.recv_fds(connection, 1 << 20, 3)
    while not data.endswith(b"\n"):
        data += connection.recv(1 << 20)
    process = os.fork()
    if not process:
        connection.close()
        run_as_main(json.loads(data), streams)
    connection.sendall(b"%d\n" % process)
    for stream in streams:
        os.close(stream)
    _, status = os.waitpid(process, 0)
    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def run_as_main(request: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Run ``energon`` as its script does, and end this process as Python ends."""
    for number, (stream, name) in enumerate(zip(streams, ("stdin", "stdout", "stderr"), strict=True)):
        os.dup2(stream, number)
        os.close(stream)
        again: Any = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
        again.reconfigure(line_buffering=number == 2 or os.isatty(number))
        setattr(sys, name, again)
        setattr(sys, f"__{name}__", again)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv, sys.path[0] = ["-c", *request["arguments"]], ""
    sys.modules["__main__"] = types.ModuleType("__main__")
    code = 1
    try:
        code = import_module("energon_cli.main").main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


if __name__ == "__main__":
    for module in IMPORTED:
        import_module(module)
    for package in PACKAGES:
        commands = import_module(f"energon_cli.commands.{package}")
        for module_info in pkgutil.iter_modules(commands.__path__, f"{commands.__name__}."):
            import_module(module_info.name)
    # Commands fork their workers, as if torch was not imported here.
    workers: Any = import_module("loader.engine.workers")
    workers._has_one_thread = lambda: threading.current_thread() is threading.main_thread() and workers.may_fork()
    gc.freeze()  # no collection in a fork visits, and so copies, what is imported
    serve(sys.argv[1])
