"""Start ``energon`` on pseudo-terminals: as forks of a process that has imported what dialogues and walks use."""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import pkgutil
import pty
import subprocess
import sys
import termios
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pexpect
import ptyprocess  # type: ignore[import-untyped]

from tests.source_tree import ROOT

IMPORTED = (
    "energon_cli.main",
    "loader.engine.executor",
    "loader.format.media.av_decode",
    "loader.inspect.prepare.choices",
    "loader.samples.building.check",
    "multiprocessing.popen_fork",
    "PIL.GifImagePlugin",
    "PIL.JpegImagePlugin",
    "PIL.PngImagePlugin",
    "PIL.PpmImagePlugin",
    "prompt_toolkit.input.vt100",
    "questionary",
    "rich.console",
    "rich.table",
    "simplejpeg",
)
PACKAGES = (
    "energon_cli.commands.make",
    "energon_cli.commands.make.import_data",
    "energon_cli.commands.make.prepare",
    "energon_cli.commands.look.preview",
)
"""Packages of commands, all of whose modules are imported; none of them imports torch."""


class Server:
    """The process that forks; it answers each line of JSON with a line."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.forked_terminals"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def ask(self, **request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@cache
def server() -> Server:
    server = Server()
    atexit.register(server.close)
    return server


class ForkedProcess(ptyprocess.PtyProcess):  # type: ignore[misc] # has no types
    """A process on a pseudo-terminal, whose parent is the server."""

    terminated: bool

    def isalive(self) -> bool:
        if not self.terminated:
            self.status = server().ask(status_of=self.pid, wait=self.flag_eof)
            self.terminated = self.status is not None
        if self.terminated:
            code = os.waitstatus_to_exitcode(self.status)
            self.exitstatus = code if code >= 0 else None
            self.signalstatus = -code if code < 0 else None
        return not self.terminated


def start_forked(arguments: list[str], *, rows: int, columns: int, variables: Mapping[str, str]) -> pexpect.spawn[str]:
    """Start ``energon`` with arguments on a new pseudo-terminal."""
    terminal, end = pty.openpty()
    spawned: Any = pexpect.spawn(None, encoding="utf-8", use_poll=True)  # type: ignore[arg-type] # started elsewhere
    spawned.pid = server().ask(
        arguments=arguments, variables=dict(variables), terminal=os.ttyname(end), size=[rows, columns]
    )
    os.close(end)
    spawned.ptyproc = ForkedProcess(spawned.pid, terminal)
    spawned.child_fd, spawned.terminated, spawned.closed = terminal, False, False
    process: pexpect.spawn[str] = spawned
    return process


def serve() -> list[str] | None:
    """Answer requests; returns the arguments in a fork, and None in this process after the last request."""
    for line in sys.stdin:
        request = json.loads(line)
        if "status_of" in request:
            pid, status = os.waitpid(request["status_of"], 0 if request["wait"] else os.WNOHANG)
            print(json.dumps(status if pid else None), flush=True)
            continue
        terminal = os.open(request["terminal"], os.O_RDWR | os.O_NOCTTY)
        termios.tcsetwinsize(terminal, tuple(request["size"]))
        if not (pid := os.fork()):
            attach(terminal)
            os.environ.clear()
            os.environ.update(request["variables"])
            arguments: list[str] = request["arguments"]
            return arguments
        os.close(terminal)
        print(pid, flush=True)
    return None


def attach(terminal: int) -> None:
    """Attach this process to a terminal, with the streams that Python opens at its start."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for number in range(3):
        os.dup2(terminal, number)
    os.close(terminal)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        mode = "w" if number else "r"
        again: Any = open(number, mode, encoding=stream.encoding, errors=stream.errors, closefd=False)  # noqa: SIM115
        again.reconfigure(line_buffering=bool(number))
        setattr(sys, name, again)
        setattr(sys, f"__{name}__", again)


def run_as_main(arguments: list[str]) -> None:
    """Run ``energon`` as ``python -m energon_cli`` does."""
    spec = find_spec("energon_cli.__main__")
    assert spec is not None
    assert spec.origin is not None
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__file__, main.__spec__ = spec.origin, spec
    sys.argv = [spec.origin, *arguments]
    sys.exit(import_module("energon_cli.main").main())


if __name__ == "__main__":
    for name in IMPORTED:
        import_module(name)
    for package in PACKAGES:
        for module in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
            import_module(module.name)
    gc.freeze()  # no collection in a fork visits, and so copies, what is imported
    given = serve()
    if given is not None:
        run_as_main(given)
