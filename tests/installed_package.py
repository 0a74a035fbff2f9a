"""Install the package that a page of the docs shows."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path


def blocks_of(page: Path, language: str) -> list[str]:
    """Return the blocks of code of a page in a language."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)
    return blocks


def install(page: Path, folder: Path) -> Path:
    """Install the package of a page with pip, and return a folder for the path of modules.

    Its first TOML is its ``pyproject.toml``, its first Python the module that this names.
    """
    project, target = folder / "project", folder / "site"
    project.mkdir()
    settings = blocks_of(page, "toml")[0]
    (project / "pyproject.toml").write_text(settings)
    module = tomllib.loads(settings)["tool"]["setuptools"]["py-modules"][0]
    (project / f"{module}.py").write_text(blocks_of(page, "python")[0])
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "--target", target, project], check=True, timeout=120)
    return target
