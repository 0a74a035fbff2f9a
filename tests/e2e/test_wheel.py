"""Install the wheel and an editable checkout: with megatron-core, with or over the original, and shadowed."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import loader
from tests.installed_wheel import Environment, make_environment, unpack, what_mypy_says
from tests.source_tree import ALIAS, PACKAGES, sources

ORIGINAL = {
    "megatron/energon/__init__.py": "from megatron.energon.watchdog import Watchdog\nSample = 'the original'\n",
    "megatron/energon/watchdog.py": "Watchdog = 'the original'\n",
    "megatron_energon-7.4.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: megatron-energon\nVersion: 7.4.1\n",
}
RECORD = "megatron_energon-7.4.1.dist-info/RECORD"
USE = "from megatron.energon import SkipSample; print(SkipSample.__module__)"  # a name that needs no torch
VERSION = f"energon {loader.__version__}\n"


def install_original(folder: Path) -> None:
    """Write the files of the original into a folder, as pip does: over existing ones."""
    for name, text in ORIGINAL.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / RECORD).write_text("".join(f"{name},,\n" for name in [*ORIGINAL, RECORD]))


def uninstall_original(folder: Path) -> None:
    for name in [*ORIGINAL, RECORD]:
        (folder / name).unlink()


# --------------------------------------------------------------------------------------------- installed files


def test_the_wheel_has_each_module_once_and_leaves_megatron_to_others(wheels: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(wheels[0]) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {f"{package.replace('.', '/')}/py.typed" for package in PACKAGES} <= names
    assert len({name for name in names if name.endswith(".py")}) == len(sources())
    assert "megatron/__init__.py" not in names
    assert not any(name.startswith("loader/compat/megatron_energon/") for name in names)


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_it_is_imported_beside_megatron_core(
    wheels: tuple[Path, Path], tmp_path: Path, project: Path, kind: str
) -> None:
    environment = make_environment(tmp_path / "venv")
    unpack(wheels[kind == "editable"], environment)
    core = environment.packages / "megatron" / "core" / "__init__.py"
    core.parent.mkdir(parents=True, exist_ok=True)
    core.write_text("NAME = 'core'\n")
    code = (
        "import megatron.core, megatron.energon\n"
        "from megatron.energon.tools.info import command\n"
        "import energon_cli.commands.look.info, loader, sys\n"
        "print(megatron.core.NAME, command is energon_cli.commands.look.info.info, 'torch' in sys.modules)\n"
        "print(megatron.energon.SkipSample is loader.SkipSample)\n"
    )
    assert environment.run("-W", "error", "-c", code, folder=project).stdout == "core True False\nTrue\n"
    done = environment.energon("--version", folder=project)
    assert (done.returncode, done.stdout, done.stderr) == (0, VERSION, "")


def test_type_checkers_see_the_types(wheels: tuple[Path, Path], tmp_path: Path, project: Path) -> None:
    dataset, folder_name = what_mypy_says(
        wheels[0],
        tmp_path,
        project,
        library="megatron.energon",
        imports=[
            "from megatron.energon.flavors.webdataset import MAIN_FOLDER_NAME",
            "from megatron.energon.task_encoder.cooking import basic_sample_keys",
        ],
        revealed=["get_train_dataset", "MAIN_FOLDER_NAME"],
    )
    assert 'note: Revealed type is "def (path: ' in dataset
    assert "-> loader.pipeline.contract.stage.SavableDataset[Any]" in dataset
    assert folder_name.endswith('Revealed type is "str"')


# ------------------------------------------------------------------------------------------------ the original


def test_one_folder_with_both_is_refused_until_it_is_mended(
    wheels: tuple[Path, Path], tmp_path: Path, project: Path
) -> None:
    environment = make_environment(tmp_path / "venv")
    install_original(environment.packages)
    unpack(wheels[0], environment)
    done = environment.run("-c", "import megatron.energon.watchdog", folder=project, check=False)
    message = "megatron-energon 7.4.1 is installed in the same folder as energon-toolkit"
    for told in (
        message,
        "'pip uninstall megatron-energon'",
        "'pip install --force-reinstall --no-deps energon-toolkit'",
    ):
        assert told in done.stderr
    assert done.stderr.splitlines()[-3].startswith("ImportError: ")
    version = environment.energon("--version", folder=project)
    assert (version.returncode, version.stdout) == (1, VERSION)
    assert version.stderr.startswith(f"error: {message}")

    uninstall_original(environment.packages)
    version = environment.energon("--version", folder=project)
    assert (version.returncode, version.stdout) == (1, VERSION)
    assert "error: megatron.energon has lost files" in version.stderr

    unpack(wheels[0], environment)
    assert environment.run("-W", "error", "-c", USE, folder=project).stdout == "loader.errors\n"
    assert environment.energon("--version", folder=project).stderr == ""


def test_an_original_that_was_installed_later_is_told_of(environment: Environment, project: Path) -> None:
    install_original(environment.packages)
    code = "from megatron.energon import Sample; from loader import SkipSample; print(Sample, SkipSample.__module__)"
    assert environment.run("-W", "error", "-c", code, folder=project).stdout == "the original loader.errors\n"
    done = environment.run("-m", "energon_cli", "--version", folder=project, check=False)
    assert (done.returncode, done.stdout) == (1, VERSION)
    assert "megatron-energon 7.4.1 is installed in the same folder" in done.stderr


def test_an_original_elsewhere_is_warned_of_with_the_one_that_is_in_force(
    environment: Environment, project: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    install_original(elsewhere)
    (environment.packages / "elsewhere.pth").write_text(str(elsewhere))
    own = environment.packages / "megatron/energon/__init__.py"
    done = environment.run("-c", USE, folder=project)
    assert done.stdout == "loader.errors\n"
    told = f"megatron-energon 7.4.1 is also installed; {ALIAS} is energon-toolkit's: {own}\n  at: {elsewhere}\n"
    assert f"<string>:1: RuntimeWarning: {told}" in done.stderr
    version = environment.energon("--version", folder=project)
    assert (version.returncode, version.stdout) == (0, VERSION)
    assert version.stderr.startswith(f"warning: {told}")


def test_an_editable_install_says_that_the_original_wins(
    wheels: tuple[Path, Path], tmp_path: Path, project: Path
) -> None:
    environment = make_environment(tmp_path / "venv")
    unpack(wheels[1], environment)
    install_original(environment.packages)
    version = environment.energon("--version", folder=project)
    assert (version.returncode, version.stdout) == (0, VERSION)
    theirs = environment.packages / "megatron/energon/__init__.py"
    assert f"{ALIAS} is megatron-energon's: {theirs}\n" in version.stderr


def test_a_checkout_of_the_original_on_pythonpath_is_told_of(
    environment: Environment, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = project / "megatron/energon/__init__.py"
    checkout.parent.mkdir(parents=True)
    checkout.write_text("")
    monkeypatch.setenv("PYTHONPATH", str(project))
    done = environment.energon("--version", folder=project)
    assert (done.returncode, done.stdout) == (0, VERSION)
    assert done.stderr.startswith(f"warning: {ALIAS} belongs to another package\n  at: {checkout}\n")
