"""Results of an unfinished command are not continued with other shards, in shares or after an interruption."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.make_dataset import caption_parts, write_shard
from tests.cli.run_energon import RunEnergon

COMMANDS = {
    "map": ("map", "captions", "sizes.py:text_bytes", "--write", "size"),
    "embed": ("embed", "captions", "--model", "minhash", "--part", "txt"),
    "lint": ("lint", "captions", "--level", "headers", "--json"),
    "stats": ("stats", "captions", "--write", "txt.chars"),
    "export": ("export", "captions", "out.jsonl", "--format", "jsonl"),
}
SIZES = """
def text_bytes(sample):
    if sample["__key__"].endswith("11") and "11 " not in sample["txt"]:
        raise ValueError("eleven")
    return len(sample["txt"])
"""
commands = pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)


@pytest.fixture
def dataset(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The prepared dataset, next to a module of a function, in the working folder."""
    (prepared.parent / "sizes.py").write_text(SIZES)
    (prepared / ".nv-meta/dataset.yaml").unlink()  # samples are dictionaries then
    monkeypatch.chdir(prepared.parent)
    return prepared


def change(dataset: Path, energon: RunEnergon) -> None:
    """Write the last shard again, with other texts, and prepare it."""
    samples = {
        f"{number:06d}": caption_parts(number) | {"txt": b"number %d is longer" % number} for number in (9, 10, 11)
    }
    write_shard(dataset / "shard_003.tar", samples)
    assert energon("prepare", dataset, "--yes").code == 0


def change_under_one_uuid(dataset: Path, energon: RunEnergon) -> None:
    """Do so, and name the new index like the earlier one, as another tool may."""
    [earlier] = [path.name for path in (dataset / ".nv-meta/index").iterdir()]
    change(dataset, energon)
    (dataset / ".nv-meta/index.uuid").write_text(earlier)
    for folder in (dataset / ".nv-meta/index").iterdir():
        if folder.name != earlier:
            shutil.rmtree(dataset / ".nv-meta/index" / earlier, ignore_errors=True)
            folder.rename(dataset / ".nv-meta/index" / earlier)


def results(dataset: Path) -> dict[str, bytes]:
    """Return what the commands have written."""
    columns = {path.name: path.read_bytes() for path in (dataset / ".nv-meta").glob("columns/*")}
    output = dataset.parent / "out.jsonl"
    return columns | ({"out.jsonl": output.read_bytes()} if output.exists() else {})


@commands
@pytest.mark.parametrize("changed", [change, change_under_one_uuid])
@pytest.mark.sampled(6)
def test_shares_of_a_dataset_that_has_changed_are_refused_until_they_are_given_up(
    command: tuple[str, ...], changed: Callable[[Path, RunEnergon], None], dataset: Path, energon: RunEnergon
) -> None:
    assert energon(*command, "--share", "1/2").code == 0
    changed(dataset, energon)
    for flags in (("--share", "2/2"), ("--share", "1/2"), ("--merge",)):
        refused = energon(*command, *flags)
        assert refused.code == 1
        assert "shards" in refused.err
        assert "--restart" in refused.err
        assert "--keep-results" not in refused.err
    for share in ("1/2", "2/2"):
        assert energon(*command, "--share", share, "--restart").code == 0
    merged = energon(*command, "--merge")
    assert merged.code == 0, merged.err
    shared = results(dataset)
    (dataset.parent / "out.jsonl").unlink(missing_ok=True)
    assert energon(*command).code == 0
    assert results(dataset) == shared


def test_an_interrupted_map_of_a_dataset_that_has_changed_is_refused(dataset: Path, energon: RunEnergon) -> None:
    command = COMMANDS["map"]
    assert energon(*command).code == 1  # of the last sample, after the other tasks
    assert [*dataset.glob(".nv-meta/.jobs/*/*/*.result")]
    change(dataset, energon)
    for flags in ((), ("--keep-results",), ("--keep-results", "--retry-failed")):
        refused = energon(*command, *flags)
        assert "an unfinished map with another dataset, shards has results here" in refused.err
        assert "discard its results with --restart" in refused.err
    assert energon(*command, "--restart").code == 0


def test_a_lint_in_shares_knows_the_shards_as_they_are(dataset: Path, energon: RunEnergon) -> None:
    command = COMMANDS["lint"]
    shard, inside = dataset / "shard_000.tar", (dataset / "shard_000.tar").read_bytes()
    shard.write_bytes(inside[:600])
    assert energon(*command, "--share", "1/2").code == 0
    shard.write_bytes(inside)
    os.utime(shard, ns=(0, 0))
    refused = energon(*command, "--share", "2/2")
    assert "an unfinished lint with another shards has results here" in refused.err
    for share in ("1/2", "2/2"):
        assert energon(*command, "--share", share, "--restart").code == 0
    assert "E1" not in energon(*command, "--merge").out


def test_a_file_of_lines_that_has_changed_is_another_one(tmp_path: Path, energon: RunEnergon) -> None:
    lines, command = tmp_path / "lines.jsonl", ("export", tmp_path / "lines.jsonl", tmp_path / "out", "--share")
    lines.write_text('{"text": "one"}\n{"text": "two"}\n')
    assert energon("prepare", lines).code == 0
    assert energon(*command, "1/2").code == 0
    lines.write_text('{"text": "six"}\n{"text": "ten"}\n')
    assert energon("prepare", lines).code == 0
    assert "an unfinished export with another shards" in energon(*command, "2/2").err
    assert energon(*command, "1/2", "--restart").code == 0
    assert energon(*command, "2/2", "--restart").code == 0
    assert energon(*command[:-1], "--merge").code == 0
    texts = [file.read_text() for file in sorted((tmp_path / "out").rglob("*")) if file.is_file()]
    assert texts == ['{"text": "six"}', '{"text": "ten"}']
