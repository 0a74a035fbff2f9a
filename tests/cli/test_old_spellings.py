"""Old spellings of options work until 0.4.0, with a note; those of megatron-energon for good, without one."""

from __future__ import annotations

from typing import Any

import click
import pytest

from energon_cli.environment import OLD_SPELLINGS, variable_name
from energon_cli.main import cli
from energon_cli.settings import scoped_settings
from tests.cli.test_commands import commands
from tests.source_tree import ROOT

COMMANDS = dict(commands())
PEER_FLAGS = {
    "analyze-debug": "--heatmap-path --heatmap-steps --heatmap-samples --heatmap-gain --force-loading-order"
    " --include-modality --skip --no-colors",
    "checkpoint redist": "--new-world-size",
    "info": "--split-config --dataset-config",
    "lint": "--split-parts --dataset-config --split-config --parallel",
    "mount": "-d --detach -s --sample-folders -w --allow-slow",
    "prepare": "--progress --no-progress --split-parts --exclude --num-workers --tar-index-only --shuffle-tars"
    " --media-metadata-by-glob --media-metadata-by-header --media-metadata-by-extension --fix-duplicates"
    " --non-interactive --split-ratio --force-overwrite --skip-dataset-yaml --dataset-yaml-name --sample-type"
    " --field-map --tmp-path",
    "prepare-media": "--progress --no-progress --num-workers --media-metadata-by-glob --media-metadata-by-header"
    " --media-metadata-by-extension --tmp-path",
    "preview": "--split-parts --dataset-config",
}
"""The flags that ``--help`` of megatron-energon 7.4 lists."""


@pytest.mark.parametrize("name", PEER_FLAGS)
def test_a_flag_of_megatron_energon_is_a_flag_here(name: str) -> None:
    flags = {flag for one in COMMANDS[name].params for flag in (*one.opts, *one.secondary_opts)}
    assert not {*PEER_FLAGS[name].split()} - flags
    assert not {*PEER_FLAGS[name].split()} & {old for old in OLD_SPELLINGS.get(name, {}) if old not in flags}


ENTRIES = [(name, old, new) for name, replacements in OLD_SPELLINGS.items() for old, new in replacements.items()]


def parse(name: str, *arguments: str) -> dict[str, Any]:
    """Parse the arguments of a command, after as many paths as it needs."""
    command = COMMANDS[name]
    paths = [f"p{number}" for number, one in enumerate(command.params) if isinstance(one, click.Argument)]
    needed = [one for one in command.params if isinstance(one, click.Option) and one.required]
    others = [word for one in needed for word in (one.opts[-1], "o")]
    parent = click.Context(cli, info_name="energon", auto_envvar_prefix="ENERGON")
    for word in name.split()[:-1]:
        parent = click.Context(COMMANDS[word], info_name=word, parent=parent)
    with scoped_settings():
        paths = paths[:1] if name == "preview" else paths
        return command.make_context(name.rpartition(" ")[2], [*paths, *others, *arguments], parent=parent).params


def value_of(name: str, new: str) -> str | None:
    """Return a value for the option of a flag; None for a switch."""
    flag = new.removesuffix(" N").split()[-1]
    if flag == "KEY":
        return "a.tar/1"
    [option] = [one for one in COMMANDS[name].params if flag in one.opts]
    assert isinstance(option, click.Option)
    if isinstance(option.type, click.Choice):
        return str(option.type.choices[-1])
    return None if option.is_flag else "7"


def in_new_spelling(new: str, value: str | None) -> list[str]:
    *words, last = new.split()
    return [*words, *([] if last.isupper() else [last]), *([] if value is None else [value])]


@pytest.mark.parametrize(("name", "old", "new"), ENTRIES)
@pytest.mark.parametrize("joined", [False, True])
def test_an_old_flag_has_the_effect_of_the_new_one(
    capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, joined: bool
) -> None:
    flags = {flag for one in COMMANDS[name].params for flag in one.opts}
    value = value_of(name, new)
    expected = parse(name, *in_new_spelling(new, value))
    assert "note" not in capsys.readouterr().err
    given = [f"{old}={value}"] if joined and value and old.startswith("--") else [old, *([value] if value else [])]
    assert parse(name, *given) == expected != parse(name)
    is_valid = old in flags and not new.endswith(" N")
    note = f"note: {old} is an old spelling, which works until 0.4.0: write {new}\n"
    assert capsys.readouterr().err == ("" if is_valid else note)


@pytest.mark.parametrize(("name", "old", "new"), ENTRIES)
def test_an_old_variable_has_the_effect_of_the_new_flag(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str
) -> None:
    value = value_of(name, new)
    expected = parse(name, *in_new_spelling(new, value))
    variable = variable_name("ENERGON_" + name.upper().replace(" ", "_").replace("-", "_"), old)
    monkeypatch.setenv(variable, value or "1")
    assert parse(name) == expected
    assert f"note: {variable} works until 0.4.0" in capsys.readouterr().err
    if new != "KEY" and value == "7":  # the command line overrides variables
        flag = new.removesuffix(" N")
        assert parse(name, *flag.split(), "8") == parse_without(monkeypatch, variable, name, *flag.split(), "8")


def parse_without(monkeypatch: pytest.MonkeyPatch, variable: str, name: str, *arguments: str) -> dict[str, Any]:
    monkeypatch.delenv(variable)
    return parse(name, *arguments)


@pytest.mark.parametrize(("name", "old", "new"), ENTRIES)
def test_an_old_spelling_is_in_no_help(capsys: pytest.CaptureFixture[str], name: str, old: str, new: str) -> None:
    command = COMMANDS[name]
    text = command.get_help(click.Context(command, info_name=name)).split()
    words = [word.partition("/")[0].strip(",") for word in text]
    is_valid = any(old in one.opts for one in command.params)
    assert (old in words) == is_valid
    assert new.partition(" ")[0] in words or new == "KEY"


def test_what_follows_two_dashes_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse("preview", "--", "--key")["keys"] == ("--key",)
    assert parse("preview", "--key", "a", "--", "--key")["keys"] == ("--key", "a")
    assert "--key is an old spelling" in capsys.readouterr().err


def test_shuffle_without_a_number_is_no_old_spelling(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse("reshard", "--shuffle")["shuffle"] is True
    assert parse("import", "--shuffle", "--seed", "3")["seed"] == 3
    assert capsys.readouterr().err == ""


def test_the_page_of_options_lists_every_old_spelling() -> None:
    text = (ROOT / "docs" / "commands" / "options.md").read_text(encoding="utf-8")
    rows = [row.split(" | ") for row in text.partition("## Old spellings")[2].partition("\n## ")[0].splitlines()]
    listed = [(row[0], row[1], row[2]) for row in rows if len(row) == 3]
    for name, old, new in ENTRIES:
        assert any(name in names and f"{old}" in olds and new.split()[-1][:5] in news for names, olds, news in listed)
