"""The table of paths on the page of common options is what the commands do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.make_mix import write_datasets, write_mix
from tests.cli.run_energon import Done, RunEnergon
from tests.source_tree import ROOT

PATHS = ("a", "mix.yaml", "texts.jsonl", "raw")
KEY = "KEY"
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "exclude": (KEY, "--to-filter", "f", "--dry-run"),
    "extract": ("-o", "out.jsonl"),
    "get": (KEY,),
    "plan": ("--balance", "1"),
    "trace": ("--step", "1"),
}
SERVE = ("browse", "mount")
"""Commands that run until they are stopped; their own tests start them."""


def rows() -> dict[str, list[str]]:
    """Return the cells of each command's row: five kinds of paths, and ``--json``."""
    page = (ROOT / "docs/commands/options.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `(\w+)` \|((?: \w+ \|){6})$", page, re.MULTILINE)
    return {command: re.findall(r"\w+", cells) for command, cells in found}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_datasets(tmp_path_factory.mktemp("datasets"))
    write_mix(folder, train=[{"path": "a"}, {"path": "texts.jsonl"}])
    return folder


def test_the_table_has_all_commands_on_datasets() -> None:
    assert {*rows()} == {*ARGUMENTS, *SERVE, "diff", "explain", "info", "lint", "preview", "stats"}


@pytest.mark.parametrize("command", [name for name in rows() if name not in SERVE])
def test_a_command_takes_the_paths_of_its_row(
    command: str, datasets: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(datasets)
    *kinds, several, form = rows()[command]

    def run(*paths: str, options: tuple[str, ...] = ()) -> Done:
        (datasets / "out.jsonl").unlink(missing_ok=True)
        key = "000001" if paths[0] in ("a", "raw") else "1"
        return energon(command, *paths, *(key if one == KEY else one for one in ARGUMENTS.get(command, ())), *options)

    for path, cell in zip(PATHS, kinds, strict=True):
        done = run(path, path) if command == "diff" else run(path)
        assert done.code in (0, 1)
        assert ("error:" not in done.err) is (cell == "yes"), (path, done.err)
        if cell == "no":
            assert "hint: run: energon prepare" in done.err
    if command != "preview" and KEY not in ARGUMENTS.get(command, ()):  # where other words are keys
        assert (run("a", "b").code != 2) is (several in ("yes", "two"))
    printed = run(*(("a", "b") if command == "diff" else ("a",)), options=("--json",)).out
    documents = printed.splitlines() if form == "lines" else [printed]
    assert documents
    assert all(isinstance(json.loads(one), dict) for one in documents)
