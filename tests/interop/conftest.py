"""Run energon-toolkit and megatron-energon ("the peer") as programs, each in its own virtual environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

READER = Path(__file__).with_name("peer_read.py")
WHOLE = ("--split-ratio", "1,0,0")  # everything is train


@dataclass(frozen=True)
class Program:
    """A program that is expected to succeed."""

    command: tuple[str, ...]

    def run(self, *arguments: object) -> str:
        """Run the program with arguments, and return its standard output."""
        command = [*self.command, *map(str, arguments)]
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
        )
        said = "\n".join(result.stderr.splitlines()[-10:])
        assert result.returncode == 0, f"{command} exited with {result.returncode}\n{result.stdout}\n{said}"
        return result.stdout

    def prepare(self, folder: Path, *arguments: str) -> Path:
        """Prepare a folder of shards without prompts."""
        self.run("prepare", "--non-interactive", "--num-workers", "2", "--no-progress", *arguments, folder)
        return folder


@dataclass(frozen=True)
class Peer(Program):
    """megatron-energon: its program, and scripts that use its library."""

    python: str

    def read(self, what: str, folder: Path, *arguments: object) -> Any:
        """Run `peer_read.py` with the peer's Python."""
        reader = Program((self.python, str(READER)))
        return json.loads(reader.run(what, folder, *arguments).splitlines()[-1])


@pytest.fixture(scope="session")
def ours() -> Program:
    return Program((sys.executable, "-m", "energon_cli"))


@pytest.fixture(scope="session")
def peer() -> Peer:
    folder = os.environ.get("ENERGON_PEER_BIN")
    if not folder:
        pytest.fail("these tests need megatron-energon in a venv of its own: run them by `make test-all`")
    return Peer((f"{folder}/energon",), f"{folder}/python")
