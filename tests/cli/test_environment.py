"""Environment variables set options: their names, their values, and messages about them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from energon_cli.environment import name_variables
from energon_cli.main import cli
from tests.cli.run_energon import RunEnergon
from tests.source_tree import ROOT


def named(group: click.Group, ctx: click.Context) -> Iterator[tuple[str, click.Option]]:
    """Yield the command line and each option of a group and its commands."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=ctx)
        name_variables(inner, command.params)
        yield from ((inner.command_path, one) for one in command.params if isinstance(one, click.Option))
        if isinstance(command, click.Group):
            yield from named(command, inner)


def all_options() -> list[tuple[str, click.Option]]:
    ctx = click.Context(cli, info_name="energon", auto_envvar_prefix="ENERGON")
    name_variables(ctx, cli.params)
    return [*(("energon", one) for one in cli.params if isinstance(one, click.Option)), *named(cli, ctx)]


def test_the_variable_of_an_option_is_its_command_and_flag() -> None:
    found = {(path, option.opts[-1]): option.envvar for path, option in all_options()}
    assert found["energon lint", "--level"] == "ENERGON_LINT_LEVEL"
    assert found["energon lint", "--json"] == "ENERGON_LINT_JSON"
    assert found["energon checkpoint info", "--json"] == "ENERGON_CHECKPOINT_INFO_JSON"
    assert found["energon prepare-media", "--progress"] == "ENERGON_PREPARE_MEDIA_PROGRESS"
    assert found["energon", "--color"] == "ENERGON_COLOR"
    assert found["energon lint", "--color"] is None
    assert found["energon lint", "--trust-code"] == "ENERGON_TRUST_CODE"


def test_each_option_has_one_variable_and_no_two_share_one() -> None:
    variables = [str(option.envvar) for _, option in all_options() if option.envvar and option.name != "trust_code"]
    assert len(variables) > 60
    assert [name for name, count in Counter(variables).items() if count > 1] == []
    without = {option.opts[-1] for path, option in all_options() if option.envvar is None and path != "energon"}
    without -= {"--like"}  # of one call: a key for all calls is no setting
    assert without == {"--help-all", "--quiet", "--verbose", "--color", "--no-progress", "--debug", "--storage-option"}


def test_no_variable_of_an_option_is_one_of_the_library() -> None:
    files = [*(ROOT / "loader").rglob("*.py"), *(ROOT / "energon_cli").rglob("*.py")]
    used = {name for file in files for name in re.findall(r'"(ENERGON_[A-Z_]+)"', file.read_text(encoding="utf-8"))}
    assert "ENERGON_CACHE_DIR" in used
    variables = {option.envvar for _, option in all_options() if option.name != "trust_code"}
    assert not variables & used


def test_a_variable_sets_an_option_and_the_command_line_overrides_it(
    energon: RunEnergon, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_LINT_LEVEL", "headers")
    monkeypatch.setenv("ENERGON_LINT_JSON", "1")
    monkeypatch.setenv("ENERGON_LINT_MAX_FINDINGS", "")
    assert energon("lint", prepared).json["level"] == "headers"
    assert energon("lint", prepared, "--level", "bytes").json["level"] == "bytes"
    assert "note: --level is set by ENERGON_LINT_LEVEL\n" in energon("-v", "lint", prepared).err


def test_variables_of_common_options_apply_to_all_commands(
    energon: RunEnergon, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_COLOR", "always")
    assert "\x1b[" in energon("info", prepared).out
    monkeypatch.setenv("ENERGON_VERBOSE", "1")
    assert "took " in energon("info", prepared).err


def test_a_message_about_a_value_names_the_variable(
    energon: RunEnergon, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_LINT_LEVEL", "bite")
    done = energon("lint", prepared)
    assert done.code == 2
    assert "Did you mean 'bytes'? The variable ENERGON_LINT_LEVEL of the environment sets it." in done.err
    assert "ENERGON_LINT_LEVEL" not in energon("lint", prepared, "--level", "bite").err


def test_the_help_has_the_rule(energon: RunEnergon) -> None:
    assert "ENERGON_LINT_LEVEL sets --level" in " ".join(energon("lint", "--help").out.split())
