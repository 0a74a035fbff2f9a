"""Options that every command takes: verbosity, colours and progress, before and after its name."""

from __future__ import annotations

import logging
import shlex
import sys
from pathlib import Path

import click
import pytest

from energon_cli.command import LazyCommand
from energon_cli.console import colour_wanted, show_note
from energon_cli.main import cli, main
from energon_cli.options import shared_options
from energon_cli.progress import ProgressBar
from energon_cli.settings import output_settings, scoped_settings
from tests.cli.make_dataset import write_captions
from tests.cli.run_energon import RunEnergon
from tests.cli.terminal import TerminalRun
from tests.cli.test_commands import commands

FLAGS = {"-q", "--quiet", "-v", "--verbose", "--color", "--no-progress", "--debug"}


@pytest.mark.parametrize(("name", "command"), [("", cli), *commands()])
def test_every_command_takes_the_common_options(name: str, command: click.Command) -> None:
    del name
    flags = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    assert flags >= FLAGS


@pytest.fixture
def talking(monkeypatch: pytest.MonkeyPatch) -> None:
    place = LazyCommand("tests.cli.talking_command:talk", "Print to all outputs.")
    monkeypatch.setitem(cli.lazy_commands, "talk", place)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("flags", "lines"),
    [
        ([], ["a warning", "note: a note", "Talking: 3 of 4 steps"]),
        (["-q"], []),
        (["--no-progress"], ["a warning", "note: a note"]),
        (["-v"], ["an info", "a warning", "note: a note", "Talking: 3 of 4 steps", "took "]),
        (["-vv"], ["a detail", "an info", "a warning", "note: a note", "Talking: 3 of 4 steps", "took "]),
        (["-v", "-q"], []),
    ],
)
@pytest.mark.usefixtures("talking")
def test_how_much_is_printed(energon: RunEnergon, flags: list[str], lines: list[str], after: bool) -> None:
    done = energon("talk", *flags) if after else energon(*flags, "talk")
    assert (done.code, done.out) == (0, "the result\n")
    printed = done.err.splitlines()
    assert len(printed) == len(lines)
    assert all(one.startswith(line) for one, line in zip(printed, lines, strict=True))


@pytest.mark.usefixtures("talking")
def test_the_settings_end_with_the_run(energon: RunEnergon) -> None:
    level = logging.getLogger("loader").level
    assert energon("-vv", "--color", "always", "talk").code == 0
    assert logging.getLogger("loader").level == level
    assert output_settings().color == "auto"
    assert "a detail" not in energon("talk").err


@pytest.mark.parametrize("arguments", [["--color", "always", "info"], ["info", "--color", "always"]])
def test_colours_in_a_pipe_if_asked(energon: RunEnergon, prepared: Path, arguments: list[str]) -> None:
    assert "\x1b" not in energon("info", prepared).out
    out = energon(*arguments, prepared).out
    assert "\x1b[" in out
    assert "\\x1b" not in out  # an escaped control sequence
    assert "\x1b]8" not in out


def test_the_last_choice_of_colours_counts(energon: RunEnergon, prepared: Path) -> None:
    assert "\x1b" not in energon("--color", "always", "info", prepared, "--color", "never").out


@pytest.mark.parametrize(("flags", "coloured"), [([], True), (["--color", "never"], False)])
def test_errors_are_coloured_on_a_terminal(flags: list[str], coloured: bool) -> None:
    with TerminalRun("checkpoint", "info", "/no/such/file.pt", *flags) as run:
        assert run.finish() == 1
        assert "/no/such/file.pt" in run.text
        assert ("\x1b[" in run.raw) == coloured


def test_no_color_is_overridden_by_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with scoped_settings() as settings:
        assert not colour_wanted(sys.stdout)
        settings.color = "always"
        assert colour_wanted(sys.stdout)


def test_quiet_hides_notes_only_in_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    with scoped_settings() as settings:
        settings.quiet = True
        show_note("hidden")
    show_note("shown")
    assert capsys.readouterr().err == "note: shown\n"


@pytest.mark.parametrize(
    ("common", "own", "printed"),
    [(None, [], True), (False, ["--progress"], False), (None, ["--no-progress"], False), (None, ["--progress"], True)],
)
def test_progress_is_shown_if_no_option_forbids_it(
    capsys: pytest.CaptureFixture[str], common: bool | None, own: list[str], printed: bool
) -> None:
    times_s = iter([0.0, 100.0, 100.0])

    @click.command()
    @shared_options("progress")
    def work() -> None:
        ProgressBar("Working", unit="steps", clock=lambda: next(times_s)).update(1, 2)

    with scoped_settings() as settings:
        settings.progress = common
        work.main(own, standalone_mode=False)
    assert bool(capsys.readouterr().err) == printed


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["lint", "x", "--level", "decod"], "'decode'"),
        (["lint", "x", "--format", "sarf"], "'sarif'"),
        (["--color", "nevr", "info", "x"], "'never'"),
        (["completion", "zhs"], "'zsh'"),
        (["lnit", "a b"], "energon lint 'a b'\n"),
        (["checkpoint", "inof", "x"], "energon checkpoint info x\n"),
        (["lint", "x", "--max-finding=3"], "energon lint x --max-findings=3\n"),
    ],
)
def test_similar_names_are_suggested(capsys: pytest.CaptureFixture[str], arguments: list[str], near: str) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert "Did you mean" in err
    assert near in err.partition("Did you mean")[2]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["check", "a b", "--level", "headers"], "energon lint 'a b' --level headers"),
        (["validate"], "energon lint"),
        (["convert", "pics", "out"], "energon import pics out"),
        (["ls", "x"], "energon info x"),
        (["head", "x", "-n", "3"], "energon preview x -n 3"),
        (["show", "x"], "energon preview x"),
        (["view", "x"], "energon preview x"),
        (["inspect", "x"], "energon info x"),
        (["init", "x"], "energon prepare x"),
        (["scan", "x"], "energon prepare x"),
        (["count", "x"], "energon info x"),
        (["Lint", "x"], "energon lint x"),
        (["statistcs", "x"], "energon stats x"),
        (["help", "validate"], "energon lint --help"),
        (["version"], "energon --version"),
        (["s3://bucket/coco"], "energon info s3://bucket/coco"),
        (["/"], "energon info /"),
    ],
)
def test_words_that_people_type_lead_to_a_command_that_is_not_run(
    energon: RunEnergon, arguments: list[str], line: str
) -> None:
    done = energon(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(f"No such command {arguments[arguments[0] == 'help']!r}. Did you mean: {line}\n")


def test_every_word_leads_to_a_command_and_is_none() -> None:
    assert {*cli.words.values()} - {"--version"} <= cli.lazy_commands.keys()
    assert not cli.words.keys() & cli.lazy_commands.keys()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["import", "pics"],
            "Missing DEST, the new folder, file or URL to write. Example: energon import ~/photos /da",
        ),
        (
            ["export", "x"],
            "Missing DEST, the new folder, file or URL to write. Example: energon export /data/coco coco",
        ),
        (["add-parts", "x", "--from", "y"], "Missing DEST, the new"),
        (["checkpoint", "redist", "x"], "Missing DEST, the new"),
        (["extract", "x"], "Missing -o DEST, the new folder, file or URL to write. Example: energon extract /data/"),
        (["preview"], "Missing PATH. Example: energon preview /data/coco"),
        (["diff", "x"], "Missing B. Example: energon diff /data/"),
    ],
)
def test_a_missing_argument_is_named_with_an_example(energon: RunEnergon, arguments: list[str], message: str) -> None:
    done = energon(*arguments)
    assert done.code == 2
    assert message in done.err


def test_messages_name_the_program_as_it_was_started(
    tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/lib/energon_cli/__main__.py"])
    assert "Usage: python -m energon_cli lint" in energon("lint", "--help").out
    assert "Did you mean: python -m energon_cli lint x\n" in energon("check", "x").err
    assert "Example: python -m energon_cli info /data/coco" in energon("info").err
    shards = write_captions(tmp_path / "shards")
    assert "run: python -m energon_cli prepare" in energon("explain", shards).err
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.jpg").write_bytes(b"x")
    assert "run: python -m energon_cli import" in energon("lint", tmp_path / "raw").out
    monkeypatch.setattr(sys, "argv", ["/bin/energon"])
    assert "run: energon prepare" in energon("explain", shards).err


def test_quiet_hides_the_notes_of_prepare_but_not_its_result(tmp_path: Path, energon: RunEnergon) -> None:
    results = []
    for name, flags in (("loud", []), ("quiet", ["-q"])):
        folder = write_captions(tmp_path / name)
        done = energon("prepare", folder, "--split-ratio", "8,1,1", "--non-interactive", *flags)
        assert done.code == 0
        results.append((done.out + done.err).splitlines())
    noted = [line for line in results[0] if line.startswith(("note:", "warning:"))]
    assert noted
    assert len(results[1]) == len(results[0]) - len(noted)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("reshard x {new} --split-ratio abc", "'--split-ratio': the ratio 'abc' has 'abc'"),
        ("split x --split-ratio abc", "'--split-ratio': the ratio 'abc' has 'abc'"),
        ("split x --split-ratio 8,1 --group-by key:[", "'--group-by': '[' is not a regular expression"),
        ("split x --split-ratio 8,1 --group-by json[", "'--group-by': 'json[' names no group"),
        ("import x {new} --yes --split-ratio abc", "'--split-ratio': the ratio 'abc' has 'abc'"),
        ("extract x -o {new} --where (", "'--where': invalid condition: '(' was never closed"),
        ("stats x --tokenizer nonsense", "--tokenizer: expected a .json file of tokenizers, or module:callable"),
        ("stats x --write ,", "--write: expected a part name (jpg, json[caption])"),
        ("trace x --step 1 --task-encoder nonsense", "'--task-encoder': expected module:Class, found 'nonsense'"),
        ("explain x --world-size 5 --lanes 7", "--lanes: expected a multiple of --world-size 5, found 7"),
        ("explain x --split-parts a,b", "'--split-parts': this command takes one name, found 2"),
        ("export x {new} --link --format files", "--link belongs to --format webdataset"),
        ("import x {new} --yes --from foldr", "Did you mean 'folder'?"),
        ("preview x --seed 1", "--seed needs --shuffle"),
        ("export x ''", "DEST is empty. Check whether a shell variable is unset."),
        ("extract x -o ''", "DEST is empty."),
        ("merge x ''", "DEST is empty."),
        ("checkpoint redist '' y", "INPUT_FILES is empty."),
        ("info ''", "PATH is empty."),
        ("mount x ''", "DIRECTORY is empty."),
    ],
)
def test_a_malformed_value_is_wrong_usage_before_any_data_is_read(
    energon: RunEnergon, tmp_path: Path, line: str, message: str
) -> None:
    done = energon(*shlex.split(line.format(new=tmp_path / "new")))
    assert (done.code, done.out) == (2, "")
    assert message in done.err
