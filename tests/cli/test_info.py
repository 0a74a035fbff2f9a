"""``energon info``: one screen, or stable JSON."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.make_dataset import write_captions
from tests.cli.run_energon import RunEnergon
from tests.source_tree import ROOT

KEYS = {
    "path", "type", "samples", "shards", "bytes", "sample_type", "crude", "field_map", "sample_loader", "part_filter",
    "subflavors", "splits", "excluded",
    "filters", "sample_columns", "parts", "part_sets", "part_sets_complete",
    "media_metadata", "prepared", "index", "duplicate_keys",
    "unfinished", "compat",
}  # fmt: skip


def test_one_screen_says_what_the_dataset_is(prepared: Path, energon: RunEnergon) -> None:
    done = energon("info", prepared)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == str(prepared)
    assert lines[1].startswith("12 samples in 4 shards, ")
    assert "samples are CaptioningSample" in lines
    assert "from        image ← jpg, caption ← txt" in lines
    assert "index       up to date" in lines
    assert ["train", "2", "6", "50.0", "%"] in [line.split() for line in lines]
    assert ["txt", "100.0", "%"] in [line.split()[:3] for line in lines]
    assert len(lines) < 40
    assert "\x1b" not in done.out


def test_the_json_has_its_keys(prepared: Path, energon: RunEnergon) -> None:
    facts = energon("info", prepared, "--json").json
    assert set(facts) == KEYS
    assert facts["splits"][1] == {"name": "val", "shards": 1, "samples": 3, "share": 0.25}
    assert set(facts["parts"][0]) == {"name", "samples", "coverage", "total_bytes", "median_bytes"}
    assert set(facts["prepared"]) == {"by", "at"}
    assert set(facts["index"]) == {"uuid", "state", "changed", "missing", "touched"}
    assert set(facts["excluded"]) == {"shards", "samples"}
    assert facts["bytes"] == sum(path.stat().st_size for path in prepared.glob("*.tar"))


def test_a_crude_dataset_without_dataset_yaml(captions: Path, energon: RunEnergon) -> None:
    energon("prepare", captions, "--yes", "--skip-dataset-yaml")
    assert "crude (no dataset.yaml)" in energon("info", captions).out


@pytest.mark.parametrize("change", ["touched", "changed", "missing"])
def test_a_stale_index_is_reported(prepared: Path, energon: RunEnergon, change: str) -> None:
    shard = prepared / "shard_002.tar"
    if change == "touched":
        os.utime(shard, (1, 1))
    elif change == "changed":
        shard.write_bytes(shard.read_bytes() + bytes(512))
    else:
        shard.unlink()
    index = energon("info", prepared, "--json").json["index"]
    assert index["state"] == ("touched" if change == "touched" else "stale")
    text = " ".join(energon("info", prepared).out.split())
    expected = {
        "touched": "up to date, though 1 shard has another time",
        "changed": "STALE: 1 shard changed (shard_002.tar) since",
        "missing": "STALE: 1 shard missing (shard_002.tar) since",
    }
    assert expected[change] in text


def test_excluded_samples_are_not_counted(prepared: Path, energon: RunEnergon) -> None:
    split = prepared / ".nv-meta/split.yaml"
    split.write_text(split.read_text().replace("exclude: []", "exclude: [shard_000.tar/000001, shard_002.tar]"))
    facts = energon("info", prepared, "--json").json
    assert facts["excluded"] == {"shards": 1, "samples": 1}
    assert [(part["shards"], part["samples"]) for part in facts["splits"]] == [(2, 5), (0, 0), (1, 3)]
    assert "1 shard, 1 single sample" in energon("info", prepared).out


def test_other_names_of_the_configs(prepared: Path, energon: RunEnergon) -> None:
    (prepared / ".nv-meta/other.yaml").write_text("__module__: megatron.energon\n__class__: CrudeWebdataset\n")
    (prepared / ".nv-meta/one.yaml").write_text("split_parts: {all: [shard_000.tar]}\n")
    facts = energon("info", prepared, "--dataset-config", "other.yaml", "--split-config", "one.yaml", "--json").json
    assert facts["crude"]
    assert [split["name"] for split in facts["splits"]] == ["all"]
    assert energon("info", prepared, "--split-config", "none.yaml").code == 1


def test_subflavors_and_a_sample_loader_are_shown(prepared: Path, energon: RunEnergon) -> None:
    (prepared / ".nv-meta/dataset.yaml").write_text(
        "sample_type: {__module__: megatron.energon, __class__: OCRSample}\n"
        "sample_loader: sample_loader.py:sample_loader\npart_filter: [jpg, json]\nsubflavors: {source: coco}\n"
    )
    text = energon("info", prepared).out
    for fact in ("OCRSample", "sample_loader.py:sample_loader", "jpg, json", "source: coco"):
        assert fact in text


def test_what_is_not_there_exits_1_and_says_what_to_do(captions: Path, energon: RunEnergon, tmp_path: Path) -> None:
    assert energon("info", captions / "nowhere.tar").code == 1
    assert energon("info", tmp_path / "nowhere").code == 1


def test_a_jsonl_file(tmp_path: Path, energon: RunEnergon) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "one"}\n{"text": "two"}\n')
    assert energon("info", path).code == 0
    energon("prepare", path)
    facts = energon("info", path, "--json").json
    assert (facts["samples"], facts["bytes"], facts["type"]) == (2, 32, "jsonl")
    assert "2 samples in 1 shard, 32 B" in energon("info", path).out


def test_it_imports_neither_torch_nor_webdataset(prepared: Path) -> None:
    code = (
        "import sys; from energon_cli.main import main; main(['info', sys.argv[1]]);"
        "print(*[name for name in ('torch', 'webdataset', 'fsspec') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, prepared], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr == "\n"


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_reader_that_leaves_early_is_no_error(prepared: Path, flags: list[str]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "energon_cli", "info", str(prepared), *flags]
    try:
        done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")


def test_several_paths_are_described_one_after_another(prepared: Path, tmp_path: Path, energon: RunEnergon) -> None:
    other = write_captions(tmp_path / "other", shards=1)
    assert energon("prepare", other, "--yes").code == 0
    done = energon("info", prepared, other)
    assert done.code == 0
    assert done.out.index(str(prepared)) < done.out.index(f"\n\n{other}\n")
    documents = energon("info", prepared, other, "--json").json["datasets"]
    assert documents == [energon("info", one, "--json").json for one in (prepared, other)]
