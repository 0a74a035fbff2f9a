"""Every command has help with an example, and a page in the documentation."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli.run_energon import RunEnergon
from tests.source_tree import ROOT


def commands() -> list[tuple[str, click.Command]]:
    """Return all commands; those of a group follow it: ``checkpoint``, ``checkpoint info``."""
    from energon_cli.main import cli

    return list(commands_of(cli, ""))


def commands_of(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name="energon")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield prefix + name, command
        if isinstance(command, click.Group):
            yield from commands_of(command, f"{prefix}{name} ")


def test_the_commands_are_those_of_the_design() -> None:
    assert {"prepare", "info", "lint", "preview"} <= {name for name, _ in commands()}


def test_every_command_has_help_with_an_example() -> None:
    for name, command in commands():
        context = click.Context(command, info_name=name, parent=click.Context(click.Group(), info_name="energon"))
        text = command.get_help(context)
        assert re.search(rf"^ +(\$ )?energon {name} ", text, flags=re.MULTILINE), f"no example in:\n{text}"


def test_every_option_has_help() -> None:
    silent = [
        f"energon {name} {parameter.opts[-1]}"
        for name, command in commands()
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden and not parameter.help
    ]
    assert not silent


def test_every_command_has_a_documentation_page_in_the_navigation() -> None:
    from energon_cli.main import COMMANDS

    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for name in (name for name, _ in commands() if " " not in name):  # a group's page documents its commands
        page = (ROOT / "docs" / "commands" / f"{name}.md").read_text(encoding="utf-8")
        module, _, attribute = COMMANDS[name].place.partition(":")
        assert (
            f":module: energon_cli.commands{module}\n:command: {attribute}\n".replace("\n", "\n    ").rstrip() in page
        )
        assert f"commands/{name}.md" in navigation


def foreign_flags(hint: str, command: str) -> list[str]:
    """Return the flags of a hint that neither its command lines nor the command that was run have."""
    flags = {
        name: {flag for one in found.params for flag in (*one.opts, *one.secondary_opts)} for name, found in commands()
    }
    found = []
    for line in re.split(r"[;)]|, or ", hint):
        named = re.search(r"energon ([a-z-]+)", line)
        owner = named[1] if named else command
        found += [f"{owner} {flag}" for flag in re.findall(r"(?<!\S)--[a-z-]+", line) if flag not in flags[owner]]
    return found


LEAVE_OUT = "copy the shard again, or leave the shard out: energon prepare --exclude REGEX"
SPLIT = "split it: energon split {whole} --split-ratio 8,1,1"
FAULTS = [
    ("reshard {dataset} {dataset_2}", "name a new folder; energon merge joins datasets"),
    ("reshard {shards} {new}", LEAVE_OUT),
    ("import {shards} {new} --yes", LEAVE_OUT),
    ("prepare {shards} --yes", LEAVE_OUT),
    ("merge {whole} {whole_2} {new}", SPLIT),
    ("split {whole} --check", SPLIT),
    ("exclude {whole} 000000", f"{SPLIT}; or exclude by a filter: energon exclude --to-filter NAME"),
    ("lint {whole} --fix", SPLIT),
    ("preview {dataset} --split-parts trian", "name one of these, or split it: energon split {dataset}"),
    ("prepare-media {dataset} --media-metadata-by-header", "with the same flags: energon prepare {dataset}"),
]


@pytest.mark.parametrize(("line", "hint"), FAULTS, ids=[line for line, _ in FAULTS])
def test_hints_name_flags_of_the_command_that_was_run_or_the_command_that_has_them(
    line: str, hint: str, prepared: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    paths = {name: tmp_path / name for name in ("dataset", "dataset-2", "whole", "whole-2", "shards", "new")}
    for name in ("dataset", "dataset-2", "whole", "whole-2"):
        shutil.copytree(prepared, paths[name])
    for name in ("whole", "whole-2"):
        (paths[name] / ".nv-meta/split.yaml").unlink()
    shard = min(paths["whole"].glob("*.tar"))
    paths["shards"].mkdir()
    (paths["shards"] / shard.name).write_bytes(shard.read_bytes()[:700])
    if line.startswith("lint"):
        shard.write_bytes(shard.read_bytes().replace(b"\xff\xd8\xff", b"<!D"))
    words = {name.replace("-", "_"): str(path) for name, path in paths.items()}
    done = energon(*line.format(**words).split())
    assert done.code
    assert hint.format(**words) in f"{done.out}\n{done.err}"
    assert foreign_flags(re.split("hint: ", f"{done.out}\n{done.err}")[-1], line.split(maxsplit=1)[0]) == []
    if "{whole}" in hint:
        assert energon("split", paths["whole"], "--split-ratio", "8,1,1").code == 0
