"""``prepare_dataset`` writes the same files as ``energon prepare``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from loader import BaseWebdatasetFactory, ConfigError, EPath, StorageError
from loader.dataset.opening import folder_at
from loader.dataset.split_parts import samples_of_part
from loader.format.dataset_ref import DatasetRef
from loader.prepare.plan import SplitRequest
from tests.e2e.dataset_tree import copy_of, prepare, write_shard, write_shards, written
from tests.source_tree import ROOT

NAMES = [f"shard_{number:03d}.tar" for number in range(6)]
RATIO = [("train", 2.0), ("val", 1.0)]


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    return write_shards(tmp_path / "shards")


def prepared(folder: Any, paths: list[Any] = NAMES, **options: Any) -> set[str]:
    return BaseWebdatasetFactory.prepare_dataset(folder, paths, **options)


def split_of(folder: Any) -> Any:
    return yaml.safe_load((folder / ".nv-meta/split.yaml").read_text())["split_parts"]


@pytest.mark.parametrize("seed", [42, None, 7])
def test_a_ratio_splits_shards_as_the_command_does(seed: int | None, shards: Path, tmp_path: Path) -> None:
    other = copy_of(shards, tmp_path / "other")
    prepare(other, split=SplitRequest(ratio=dict(RATIO), shuffle_seed=seed))
    assert prepared(EPath(shards), split_parts_ratio=RATIO, shuffle_seed=seed) == {"json", "txt"}
    assert written(shards, sqlite_as_rows=True) == written(other, sqlite_as_rows=True)


def test_progress_draws_a_bar_of_the_shards(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepared(shards, split_parts_ratio=RATIO, progress=True)
    assert "6/6" in capsys.readouterr().err
    prepared(shards, split_parts_ratio=RATIO)
    assert not capsys.readouterr().err


def test_patterns_and_another_split_file(shards: Path) -> None:
    prepared(
        shards, ["shard_{000..005}.tar"], split_parts_patterns=[("train", "shard_00[0-3]"), ("val", "shard_00[45]")]
    )
    assert split_of(shards) == {"train": ["shard_{000..003}.tar"], "val": ["shard_{004..005}.tar"]}
    prepared(shards, split_parts_ratio=[("all", 1)], split_config="other.yaml")
    assert list(split_of(shards)) == ["train", "val"]
    assert len(samples_of_part(folder_at(DatasetRef.at(shards, split_config="other.yaml")), "all")) == 6


def test_only_listed_shards_are_in_the_dataset(shards: Path) -> None:
    (shards / "sub").mkdir()
    shutil.move(shards / NAMES[5], shards / "sub" / NAMES[5])
    prepared(shards, [NAMES[1], shards / NAMES[3], f"./sub/{NAMES[5]}"], split_parts_ratio=RATIO, shuffle_seed=None)
    assert list(folder_at(shards).shard_counts) == [NAMES[1], NAMES[3], f"sub/{NAMES[5]}"]


def test_the_callers_progress_function_sees_a_step_for_each_shard(shards: Any) -> None:
    seen = []

    def progress(steps: Any, total: Any) -> Iterator[Any]:
        seen.append(total)
        for step in steps:
            seen.append("step")
            yield step
        seen.append("end")

    for _ in range(2):  # the second time, all shards are done
        seen.clear()
        prepared(shards, split_parts_ratio=RATIO, progress_fn=progress, workers=2)
        assert seen == [6, *["step"] * 6, "end"]


def test_a_script_needs_no_guard_around_it(shards: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, types\n"
        "sys.modules['torch'] = types.ModuleType('torch')  # with torch, processes are not forked but spawned\n"
        "from loader.compat.webdataset_factory import prepare_dataset\n"
        f"report = prepare_dataset({str(shards)!r}, ['shard_{{000..005}}.tar'], workers=2)\n"
        "print(report.samples)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, env=environment)
    assert (done.stderr, done.stdout) == ("", "18\n")


def test_without_a_split_the_existing_one_is_kept(shards: Path) -> None:
    prepared(shards, split_parts_ratio=RATIO)
    before = split_of(shards)
    prepared(shards)
    prepared(shards, tar_index_only=True, split_parts_ratio=[("all", 1.0)])
    assert split_of(shards) == before


def test_duplicate_keys_are_renamed_on_request(tmp_path: Path) -> None:
    for name in ("a.tar", "b.tar"):
        write_shard(tmp_path / name, {"0": {"txt": name.encode()}})
    prepared(tmp_path, ["a.tar", "b.tar"], split_parts_ratio=RATIO, fix_duplicates=True)
    index = folder_at(tmp_path).index
    assert [index.key(sample) for sample in range(2)] == ["0", "0#1"]


def test_invalid_arguments_are_refused(shards: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"shard_00x.tar: there is no such shard(?s:.*)no.tar: there is no such shard"
    ):
        prepared(shards, ["shard_00x.tar", NAMES[0], "no.tar"])
    with pytest.raises(ConfigError, match="found none"):
        prepared(shards, [])
    with pytest.raises(ConfigError, match="found both"):
        prepared(shards, split_parts_ratio=RATIO, split_parts_patterns=[("train", ".*")])
    with pytest.raises(StorageError, match="does not exist"):
        prepared(tmp_path / "gone")
    assert not (shards / ".nv-meta").exists()
