"""A sample of thousands of parts is printed shortened; ``--json`` has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .make_dataset import write_shard
from .run_energon import RunEnergon

PARTS = 3000


@pytest.fixture
def folder(tmp_path: Path, energon: RunEnergon) -> Path:
    write_shard(tmp_path / "s_0.tar", {"a": {f"p{number:05}.txt": b"x" for number in range(PARTS)}, "b": {"txt": b"y"}})
    energon("prepare", tmp_path, "--yes")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [("preview", "--crude"), ("get", "s_0.tar/a"), ("info",), ("lint",), ("stats",)],
    ids=lambda one: one[0],
)
def test_the_parts_of_a_sample_are_printed_shortened(
    folder: Path, energon: RunEnergon, arguments: tuple[str, ...]
) -> None:
    command, *others = arguments
    done = energon(command, folder, *others)
    assert done.err == ""
    assert len(done.out.splitlines()) < 230
    assert "more" in done.out


def test_json_has_all_parts_of_a_sample(folder: Path, energon: RunEnergon) -> None:
    assert len(energon("get", folder, "s_0.tar/a", "--json").json["parts"]) == PARTS
    assert len(energon("preview", folder, "--crude", "--json").json["fields"]) == PARTS
