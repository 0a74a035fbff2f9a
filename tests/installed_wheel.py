"""Virtual environments in which tests install this project."""

from __future__ import annotations

import subprocess
import sys
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


TYPED_PROGRAM = """\
from {library} import CaptioningSample, DefaultTaskEncoder, edataclass, get_train_dataset
from {library} import WorkerConfig
{imports}


@edataclass
class Counted(CaptioningSample):
    letters: int


class Encoder(DefaultTaskEncoder[CaptioningSample, Counted, Counted, Counted]):
    def encode_sample(self, sample: CaptioningSample) -> Counted:
        return Counted.extend(sample, letters=len(sample.caption))


{revealed}
WorkerConfig(rank="0", world_size=1, num_workers=0)
from {library} import get_trian_dataset
"""


def what_mypy_says(
    wheel: Path, folder: Path, project: Path, *, library: str, imports: list[str], revealed: list[str]
) -> list[str]:
    """Return what a type checker reveals in a program that uses a wheel.

    The two mistakes of the program must be the only ones that it finds.

    Args:
        folder: The folder for the environment.
        project: The folder of the program.
        library: The name by which the program imports the library.
        imports: Lines of other imports.
        revealed: Expressions.
    """
    environment = make_environment(folder / "venv", dependencies=False)
    unpack(wheel, environment)
    code = TYPED_PROGRAM.format(
        library=library, imports="\n".join(imports), revealed="\n".join(f"reveal_type({each})" for each in revealed)
    )
    (project / "train.py").write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(environment.python)]
    command += ["--cache-dir", str(folder / "cache"), "train.py"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    *types, wrong_type, wrong_name, _ = done.stdout.splitlines()
    assert len(types) == len(revealed), done.stdout
    assert 'Argument "rank" to "WorkerConfig" has incompatible type "str"' in wrong_type
    assert 'has no attribute "get_trian_dataset"' in wrong_name
    return types
