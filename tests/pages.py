"""The code on a page of the documentation, and an environment in which a shell runs it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.forked_commands import client
from tests.source_tree import ROOT


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of code in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[str]:
    """Return the lines behind a prompt."""
    return [line[2:] for line in block.splitlines() if line.startswith("$ ")]


def without_numbers(text: str) -> str:
    """Remove what depends on the day, the machine and the libraries that make the pictures."""
    return re.sub(r"[▁▂▃▄▅▆▇█ ]{2,}|[0-9][-0-9.,:+eTZ]*", "#", text)


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def put_energon_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let shells find ``energon`` in a folder, and its Python this source tree."""
    executable(folder / "energon", client())
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
