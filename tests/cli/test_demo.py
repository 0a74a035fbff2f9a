"""``energon demo``: its page shows its output, its command lines run as they are printed, and so does its code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from energon_cli.commands.make.demo_pictures import draw_pictures
from tests.cli.run_energon import RunEnergon
from tests.forked_scripts import ForkedScripts
from tests.pages import without_numbers
from tests.source_tree import ROOT

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def printed(folder: Path) -> str:
    """Return what a whole run prints, in an empty folder."""
    return run("energon demo", folder)


def run(script: str, folder: Path) -> str:
    environment = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_page_shows_the_output(printed: str, folder: Path) -> None:
    page = (ROOT / "docs/commands/demo.md").read_text(encoding="utf-8")
    shown = page.partition("```console\n$ energon demo\n")[2].partition("```\n")[0]
    assert without_numbers(printed.replace(f"{folder}/", "/home/you/")) == without_numbers(shown)


def test_the_command_lines_run_in_a_fresh_shell(printed: str, folder: Path, tmp_path: Path) -> None:
    commands, _, _ = printed.partition("# Training, in Python:")
    lines = re.findall(r"^\$ (.*)$", commands, flags=re.MULTILINE)
    assert [line.split()[1] for line in lines] == ["import", "info", "preview", "lint", "lint", "stats", "get"]
    shutil.copytree(folder / "energon-demo" / "pictures", tmp_path / "energon-demo" / "pictures")
    again = run("\n".join(lines), tmp_path)
    # The first line of the demo, its comments and its command lines stand between the outputs.
    outputs = re.sub(r"^drew .*\n|^[#$] .*\n|^\n(?=[#$])", "", commands, flags=re.MULTILINE)
    assert without_numbers(again.replace(str(tmp_path), str(folder))).split() == without_numbers(outputs).split()
    assert "E302  shard_000000.tar/000017 [jpg]" in again
    assert "no findings" in again


def test_the_lines_for_training_train(printed: str, folder: Path, tmp_path: Path, scripts: ForkedScripts) -> None:
    script = tmp_path / "train.py"
    script.write_text(printed.partition("# Training, in Python:\n")[2])
    steps = scripts.run(script, folder=folder).splitlines()
    assert [re.sub(r"[0-9]{3}", "N", line.partition(") ")[0]) for line in steps] == [
        f"{n} (4, 3, N, N" for n in range(3)
    ]
    assert all(line.partition(") ")[2] for line in steps)


def test_pictures_are_varied_small_and_the_same_each_time() -> None:
    pictures = [*draw_pictures(12)]
    assert len({caption for _, caption in pictures}) == 12
    assert len({picture.size for picture, _ in pictures}) == 3
    assert max(max(picture.size) for picture, _ in pictures) == 256
    assert all(len(picture.getcolors(1 << 16) or ()) > 20 for picture, _ in pictures)
    again = [*draw_pictures(12)]
    assert [(picture.tobytes(), caption) for picture, caption in pictures] == [
        (picture.tobytes(), caption) for picture, caption in again
    ]


def test_a_folder_with_files_a_file_and_a_url_are_refused(energon: RunEnergon, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "notes.txt"):
        done = energon("demo", path)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("error: expected a new or empty folder\n")
    assert energon("demo", "s3://bucket/demo").code == 2
    done = energon("demo", tmp_path / "notes.txt" / "demo")
    assert done.code == 1
    assert "cannot write the pictures: Not a directory" in done.err
    assert [*tmp_path.iterdir()] == [tmp_path / "notes.txt"]


def test_the_name_of_the_folder_may_have_a_line_break(
    energon: RunEnergon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("energon_cli.commands.make.demo._PICTURES", 18)
    done = energon("demo", tmp_path / "two\nlines")
    assert done.code == 0, done.err
    assert (tmp_path / "two\nlines/dataset/.nv-meta/.info.json").exists()
    assert done.out.count("\n$ ") == 7  # each command line is in one line, and runs


def test_an_interruption_ends_it(energon: RunEnergon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    from energon_cli.commands.look.info import info

    monkeypatch.setattr("energon_cli.commands.make.demo._PICTURES", 18)
    monkeypatch.setattr(info, "callback", interrupt)
    done = energon("demo", tmp_path / "demo")
    assert (done.code, done.err.splitlines()[-1]) == (130, "interrupted")
    assert done.out.splitlines()[-1].startswith("$ energon info ")
