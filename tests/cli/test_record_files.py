"""The commands on token, Parquet and JSONL files, and on folders of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from loader import (
    WorkerConfig,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    open_dataset,
)
from loader.format.dataset_ref import DatasetRef
from loader.inspect.browse.catalogue import Catalogue
from tests.cli.run_energon import RunEnergon
from tests.e2e.dataset_tree import write_tar
from tests.small_disks import read_only
from tests.tables import write_lines, write_rows
from tests.token_files import numbered, write_tokens

Run = Callable[..., str]


@pytest.fixture
def run(energon: RunEnergon) -> Run:
    """Run a command that ends with a code, and return its output and errors."""

    def run(*arguments: object, code: int = 0) -> str:
        done = energon(*arguments)
        assert done.code == code, done.out + done.err
        return done.out + done.err

    return run


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    write_tokens(tmp_path / "tokens#1", numbered(30))
    return tmp_path / "tokens#1"


def test_token_files_need_no_prepare(tokens: Path, run: Run) -> None:
    assert "nothing to prepare" in run("prepare", tokens)
    assert json.loads(run("prepare", f"{tokens}.bin", "--json"))["samples"] == 30
    assert sorted(path.name for path in tokens.parent.iterdir()) == ["tokens#1.bin", "tokens#1.idx"]


def test_info_of_token_files(tokens: Path, run: Run) -> None:
    found = json.loads(run("info", tokens, "--json"))
    assert (found["type"], found["samples"], found["path"]) == ("binidx", 30, f"{tokens}.bin")
    assert found["tokens"] == {"dtype": "uint16", "total": 73, "documents": 30}
    assert found["parts"][0]["median_bytes"] == 4
    assert "73 of uint16, in 30 documents" in run("info", tokens)


def test_preview_of_token_files(tokens: Path, run: Run) -> None:
    shown = run("preview", tokens, "7")
    assert "tokens#1.bin/7   sample 7 of 30" in shown
    assert "uint16 (4,)" in shown
    assert "a single file has no split parts" in run("preview", tokens, "--split-parts", "val", code=2)


def test_lint_of_token_files(tokens: Path, run: Run) -> None:
    assert "no findings: 30 samples" in run("lint", tokens)
    index = Path(f"{tokens}.idx")
    index.write_bytes(index.read_bytes()[:-3])
    assert "E411" in run("lint", tokens, code=1)
    assert "expected" in run("info", tokens, code=1)


def test_the_commands_on_a_parquet_file(tmp_path: Path, run: Run) -> None:
    path = write_rows(tmp_path / "x.parquet", range(20))
    assert "nothing to prepare" in run("prepare", path)
    found = json.loads(run("info", path, "--json"))
    assert (found["type"], found["samples"], found["columns"]["id"]) == ("parquet", 20, "int64")
    assert "3, the largest" in run("info", path)
    assert "text 3" in run("preview", path, "x.parquet/3")
    assert "no findings: 20 samples" in run("lint", path)
    path.write_bytes(path.read_bytes()[:50])
    assert "E414" in run("lint", path, code=1)


@pytest.fixture(params=[0, 32 << 20], ids=["kept", "in memory"])
def lines(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a JSONL file that is not prepared, whose index is kept, or is in memory only."""
    monkeypatch.setattr("loader.format.jsonl.unprepared._KEPT_FROM_BYTES", request.param)
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path / "index"))
    return write_lines(tmp_path / "data" / "x.jsonl", range(20))


def test_the_commands_on_a_jsonl_file_that_is_not_prepared(lines: Path, run: Run, energon: RunEnergon) -> None:
    with read_only(lines.parent):
        found = energon("info", lines, "--json").json
        assert (found["type"], found["samples"]) == ("jsonl", 20)
        assert "text 3" in run("preview", lines, "x.jsonl/3")
        assert "no findings: 20 samples" in run("lint", lines)
        assert "text 7" in run("get", lines, "7", "json")
        assert "json[id]" in run("stats", lines)
        catalogue = Catalogue([DatasetRef(str(lines))])
        assert json.loads(catalogue.datasets[0].read(5, "json"))["id"] == 5
        catalogue.close()
        assert open_dataset(lines)[11]["json"]["id"] == 11
    assert [path.name for path in lines.parent.iterdir()] == ["x.jsonl"]


def test_a_run_on_a_jsonl_file_that_is_not_prepared(lines: Path) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=2)
    train = get_train_dataset(
        str(lines), worker_config=config, batch_size=1, shuffle_buffer_size=None, max_samples_per_sequence=None
    )
    batches = iter(get_savable_loader(train))
    assert {int(next(batches)["json"]["id"][0]) for _ in range(20)} == set(range(20))
    others = get_val_dataset(str(lines), worker_config=config, batch_size=4)
    assert sorted(int(number) for batch in get_loader(others) for number in batch["json"]["id"]) == list(range(20))


def test_the_commands_name_a_damaged_line(lines: Path, run: Run) -> None:
    lines.write_text('{"id": 1}\n{"id": }\n')
    for command in ("info", "preview", "stats"):
        shown = run(command, lines, code=1)
        assert "line 2 is not one JSON object: JSON is malformed" in shown
        assert f"at: {lines}, byte 10" in shown
    assert "E403" in run("lint", lines, code=1)


FUNCTION = "def keys(sample):\n    return sorted(key for key in sample if not key.startswith('__'))\n"


@pytest.mark.parametrize("kind", ["jsonl", "bin", "parquet", "tar"])
def test_map_shows_its_results_on_a_single_file(tmp_path: Path, run: Run, kind: str) -> None:
    (tmp_path / "trial.py").write_text(FUNCTION)
    path = tmp_path / f"x.{kind}"
    if kind == "jsonl":
        write_lines(path, range(3))
    elif kind == "bin":
        write_tokens(tmp_path / "x", numbered(3))
    elif kind == "parquet":
        write_rows(path, range(3))
    else:
        write_tar(path, [(f"{number}.txt", b"text") for number in range(3)])
    shown = run("map", path, f"{tmp_path / 'trial.py'}:keys", "--show", "--limit", "2").splitlines()
    parts = {"jsonl": ["json"], "bin": ["tokens"], "parquet": ["id", "image", "text", "turns"], "tar": ["txt"]}[kind]
    keys = ["x.tar/0", "x.tar/1"] if kind == "tar" else ["0", "1"]
    assert shown == [f"{key}: {parts!r}" for key in keys]
    assert "expected the folder of a prepared dataset" in run(
        "map", path, f"{tmp_path / 'trial.py'}:keys", "--write", "a", code=1
    )


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_the_commands_on_a_folder(tmp_path: Path, kind: str, run: Run) -> None:
    for shard in range(4):
        write = write_lines if kind == "jsonl" else write_rows
        write(tmp_path / f"s_{shard}.{kind}", range(10 * shard, 10 * shard + 10))
    assert "would prepare" in run("prepare", tmp_path, "--yes", "--dry-run")
    assert not (tmp_path / ".nv-meta").exists()
    report = json.loads(run("prepare", tmp_path, "--non-interactive", "--split-ratio", "3,1", "--json"))
    assert (report["samples"], report["shards"]) == (40, 4)
    found = json.loads(run("info", tmp_path, "--json"))
    assert (found["type"], found["samples"]) == (kind, 40)
    assert [part["samples"] for part in found["splits"]] == [30, 10]
    assert "compat" not in found
    assert "text 27" in run("preview", tmp_path, f"s_2.{kind}/7")
    assert f"s_3.{kind}/0" in run("preview", tmp_path, "--split-parts", "val")
    assert "40 samples in 4 shards" in run("lint", tmp_path)
    (tmp_path / f"s_1.{kind}").unlink()
    assert "E101" in run("lint", tmp_path, code=1)


def test_a_metadataset_of_all_formats(tmp_path: Path, tokens: Path, run: Run) -> None:
    write_rows(tmp_path / "x.parquet", range(20))
    write_lines(tmp_path / "lines/a.jsonl", range(10))
    run("prepare", tmp_path / "lines", "--non-interactive", "--split-ratio", "1", "--sample-type", "CrudeWebdataset")
    blend: list[dict[str, Any]] = [{"path": name} for name in ("tokens#1", "x.parquet", "lines")]
    blend.append({"path": "tokens#1", "subset": {"range": [0, 10]}})
    document = {
        "__module__": "megatron.energon",
        "__class__": "MetadatasetV2",
        "splits": {"train": {"blend": blend}},
    }
    path = tmp_path / "mix.yaml"
    path.write_text(yaml.safe_dump(document))
    assert "70" in run("info", path)
    linted = run("lint", path)
    assert "W503" in linted  # the token file is reached twice
    shown = run("preview", path, "x.parquet/4")
    assert "text 4" in shown
    (tmp_path / "tokens#1.bin").write_bytes(b"")
    assert "E412" in run("lint", path, code=1)
