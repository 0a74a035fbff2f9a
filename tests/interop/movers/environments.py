"""The environments of other libraries, which ``make test-all`` sets up: each has this library, too."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ENVIRONMENT = Path(__file__).parent / "environment"


@dataclass(frozen=True)
class Environment:
    """A virtual environment.

    Attributes:
        bin: Its folder of programs.
    """

    bin: Path

    def run(self, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        """Run Python in a folder; torchvision is in a folder of its own, and needs the module in ENVIRONMENT."""
        paths = [str(ENVIRONMENT), str(self.bin.parent / "torchvision")]
        settings = {"PYTHONPATH": os.pathsep.join(paths), "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"}
        command = [str(self.bin / "python"), *arguments]
        return subprocess.run(
            command, cwd=folder, env=os.environ | settings, capture_output=True, text=True, check=False, timeout=300
        )


def environment(name: str) -> Environment:
    """Return the environment of ``ENERGON_LOADERS_BIN`` or ``ENERGON_TRAINERS_BIN``; skip the test without it."""
    variable = f"ENERGON_{name.upper()}_BIN"
    folder = os.environ.get(variable)
    if folder is None:
        pytest.skip(f"set {variable} to the bin folder of .venv-{name}, as make test-all does")
    return Environment(Path(folder))
