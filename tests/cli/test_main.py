"""The ``energon`` program: help, version, errors and exit codes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest

import loader
from energon_cli.command import LazyCommand
from energon_cli.main import COMMANDS, cli, main
from tests.source_tree import ROOT

ENERGON = [sys.executable, "-m", "energon_cli"]
HEAVY = ("torch", "webdataset", "numpy", "PIL", "rich", "questionary", "yaml", "msgspec", "fsspec")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        cli.lazy_commands,
        "fail",
        LazyCommand("tests.cli.failing_command:fail", "Fail in a given way."),
    )


def energon(*arguments: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*ENERGON, *arguments], capture_output=True, text=True, cwd=ROOT, check=False, **kwargs)


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--version", "-V"):
        assert main([option]) == 0
        assert capsys.readouterr().out == f"energon {loader.__version__}\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_command_with_a_sentence(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    assert main([flag]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, place in cli.lazy_commands.items():
        assert any(line.split(maxsplit=1) == [name, place.short_help] for line in lines)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_and_version_import_nothing_that_takes_time(arguments: list[str]) -> None:
    code = (
        "import sys; from energon_cli.main import main; main(sys.argv[2:]);"
        "print('loaded:', *[name for name in sys.argv[1].split() if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, " ".join(HEAVY), *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stderr == "loaded:\n"


def test_the_short_help_in_the_list_is_that_of_the_command() -> None:
    import click

    context = click.Context(cli)
    for name, place in cli.lazy_commands.items():
        command = cli.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.get_short_help_str(limit=200) == place.short_help


def test_no_arguments_show_the_help_and_count_as_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Commands:" in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prepar"], "Did you mean: energon prepare"),
        (["xyzzy"], f"Commands: {', '.join(COMMANDS)}."),
        (["--versoin"], "Did you mean: energon --version"),
        (["info"], "Missing PATH. Example: energon info /data/coco"),
        (["preview", "x", "--split", "train"], "Did you mean: energon preview x --split-parts train"),
        (["extract", "x", "--to", "y"], "No such option '--to'.\n"),  # not --json, which shares its dashes
        (["info", "x", "--jsno"], "Did you mean: energon info x --json"),
        (["lint", "x", "--level", "all"], "'headers', 'bytes', 'decode'"),
    ],
)
def test_wrong_usage_is_explained_and_exits_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        ("fine", 0, ""),
        ("exit", 1, ""),
        ("usage", 2, "Error: Invalid value for --how: no"),
        ("interrupt", 130, "interrupted\n"),
        ("pipe", 141, ""),
        ("format", 1, "error: cut \\x1b[2J short\n  at: /data/s.tar, byte 512\n  hint: copy it again\n"),
        ("bug", 1, "error: RuntimeError: the flux\\x1b[31m is off\n  this is a bug"),
    ],
)
@pytest.mark.usefixtures("failing")
def test_every_kind_of_failure_has_its_exit_code_and_no_traceback(
    capfd: pytest.CaptureFixture[str], how: str, code: int, message: str
) -> None:
    assert main(["fail", how]) == code
    err = capfd.readouterr().err
    assert message in err
    assert (how == "bug") == (re.search(r"at /.*/energon_cli/\w+\.py:\d+; run again", err) is not None)
    assert "Traceback" not in err
    assert "\x1b" not in err


@pytest.mark.usefixtures("failing")
def test_a_bug_in_modules_that_were_compiled_elsewhere_is_named_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("energon_cli.main._SOURCES", ("/elsewhere/",))
    assert main(["fail", "bug"]) == 1
    assert "failing_command.py:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--debug", "fail", "bug"], ["fail", "bug", "--debug"], ["fail", "--debug", "bug"]]
)
@pytest.mark.usefixtures("failing")
def test_debug_shows_the_traceback_at_any_position(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(arguments) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "failing_command.py" in err
    assert "run again with --debug" not in err


@pytest.mark.usefixtures("failing")
def test_debug_leaves_wrong_usage_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--debug", "fail", "usage"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_reader_that_leaves_early_is_no_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [*ENERGON, "--help"], stdout=write_end, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")


def test_characters_that_a_terminal_cannot_encode_are_escaped() -> None:
    done = energon("preview", "--help", env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert done.returncode == 0
    assert "\\u2192 shows the next sample" in done.stdout


def test_shells_can_complete_commands() -> None:
    done = energon(
        env={**os.environ, "_ENERGON_COMPLETE": "bash_complete", "COMP_WORDS": "energon pre", "COMP_CWORD": "1"}
    )
    assert done.stdout.split() == ["plain,prepare", "plain,prepare-media", "plain,preview"]
