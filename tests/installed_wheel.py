"""Virtual environments in which tests install this project."""

from __future__ import annotations

import subprocess
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

SCRIPT = "import sys\nfrom energon_cli.main import main\n\nif __name__ == '__main__':\n    sys.exit(main())\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Virtual environment with this project installed."""

    python: Path
    packages: Path

    def run(self, *arguments: str | Path, folder: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [self.python, *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=check)

    def energon(self, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run the program as pip installs it: the current folder is not searched for modules."""
        script = self.python.with_name("energon")
        script.write_text(SCRIPT)
        return self.run(script, *arguments, folder=folder, check=False)


def make_environment(folder: Path, *, dependencies: bool = True) -> Environment:
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    python = folder / "bin" / "python"
    (packages,) = (folder / "lib").glob("python*/site-packages")
    if dependencies:
        (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return Environment(python=python, packages=packages)


def unpack(wheel: Path, environment: Environment) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(environment.packages)
