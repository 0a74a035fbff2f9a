"""A sample of thousands of parts is printed shortened; ``--json`` has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from energon_cli.main import main

from .make_dataset import write_shard
from .run_energon import RunEnergon

PARTS = 3000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    write_shard(folder / "s_0.tar", {"a": {f"p{number:05}.txt": b"x" for number in range(PARTS)}, "b": {"txt": b"y"}})
    assert main(["prepare", str(folder), "--yes", "--num-workers", "1"]) == 0
    return folder


@pytest.mark.parametrize(
    "arguments",
    [("preview", "--crude"), ("get", "s_0.tar/a"), ("info",), ("lint",), ("stats",)],
    ids=lambda one: one[0],
)
@pytest.mark.sampled(3)
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
