"""A reshard or a writer that is killed at any moment continues in the next run, which repeats and loses nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from glob import glob
from pathlib import Path

import numpy as np
import pytest

from loader import ShardWriter
from loader.convert.resharding import ReshardPlan, ReshardReport, run_reshard
from loader.convert.rows.shard_layout import ShardLayout
from loader.dataset.opening import folder_at
from loader.engine import AlreadyDoneError
from loader.format.columns.column_files import open_column, write_column
from loader.format.dataset_ref import DatasetRef
from tests.e2e.dataset_tree import RATIO, caption_samples, prepare, shard_path, write_shard
from tests.e2e.test_prepare_kills import every_call, in_child, kill_before

SAMPLES = 24


def write_dataset(folder: Path, samples: int) -> Path:
    for number in range(4):
        write_shard(shard_path(folder, number), caption_samples(number * samples // 4, samples // 4))
    prepare(folder, split=RATIO)
    opened = folder_at(folder)
    write_column(opened.storage, opened.index, "number", np.arange(samples))
    return folder


def reshard(folder: Path, output: Path) -> ReshardReport:
    return run_reshard(
        ReshardPlan(
            ref=DatasetRef(str(folder)),
            output=str(output),
            layout=ShardLayout(samples_per_shard=5, shuffle_seed=1),
            compat=False,
        )
    )


def shards_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.tar")}


def times_of_change(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.tar")}


def numbers_of(folder: Path) -> list[int | float | bool | str | None]:
    opened = folder_at(folder)
    column = open_column(opened.storage, opened.index, "number")
    return [column.value(sample) for sample in range(len(opened.index))]


@every_call
def test_a_reshard_is_killed_before_any_call_that_changes_the_disk(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_dataset(tmp_path / "ds", SAMPLES)
    reshard(folder, tmp_path / "whole")
    number = every
    while True:
        output = tmp_path / str(number)
        with monkeypatch.context() as patched:
            kill_before(number, patched)
            code = in_child(lambda output=output: reshard(folder, output))  # type: ignore[misc]
        if code == 0:
            break
        assert code == -signal.SIGKILL
        written = times_of_change(output)
        done = {file.stem for file in output.glob(".nv-meta/.import/*.json")}
        with suppress(AlreadyDoneError):
            reshard(folder, output)
        now = times_of_change(output)
        assert {name: now[name] for name in done} == {name: written[name] for name in done}
        assert shards_of(output) == shards_of(tmp_path / "whole")
        assert numbers_of(output) == numbers_of(tmp_path / "whole")
        number += every
    assert number > 20, "a reshard changes the disk at least so often"


def is_complete(output: Path) -> bool:
    return (output / ".nv-meta/.info.json").exists() and not (output / ".nv-meta/.import").exists()


@pytest.mark.slow
def test_kills_of_the_command_at_random_moments(tmp_path: Path) -> None:
    folder, output = write_dataset(tmp_path / "ds", 400), tmp_path / "out"
    command = [sys.executable, "-m", "energon_cli", "reshard", str(folder)]
    options = [
        "--shuffle",
        "--seed",
        "1",
        "--no-compat",
        "--samples-per-shard",
        "5",
        "--num-workers",
        "2",
        "--no-progress",
    ]
    subprocess.run([*command, str(tmp_path / "whole"), *options], check=True)
    chance, kept, kills = random.Random(1), dict[str, int](), 0
    done = output / ".nv-meta/.import"
    while True:
        with (tmp_path / "errors").open("w") as errors:
            process = subprocess.Popen([*command, str(output), *options], start_new_session=True, stderr=errors)
        enough = len(kept) + chance.randint(8, 40)  # of 80 shards
        while process.poll() is None and len(glob(f"{done}/*")) < enough:
            time.sleep(0.001)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        code = process.wait()
        now = times_of_change(output)
        assert {name: now.get(name) for name in kept} == kept, "a shard that was written is written again"
        assert code in {0, -signal.SIGKILL}, (tmp_path / "errors").read_text()
        if code == 0 or is_complete(output):  # it may be killed while it ends
            break
        kept = {file.stem: now[file.stem] for file in output.glob(".nv-meta/.import/*.json")}
    assert kills
    assert shards_of(output) == shards_of(tmp_path / "whole")
    assert numbers_of(output) == numbers_of(tmp_path / "whole")


def write_texts(folder: Path) -> tuple[int, int]:
    with ShardWriter(folder, samples_per_shard=4, resume=True, compat=False) as writer:
        for number in range(SAMPLES):
            writer.write({"__key__": f"{number:04d}", "txt": f"text {number}"})
    return writer.resumed, writer.samples


@every_call
def test_a_writer_is_killed_before_any_call_that_changes_the_disk(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert write_texts(tmp_path / "whole") == (0, SAMPLES)
    number = every
    while True:
        output = tmp_path / str(number)
        with monkeypatch.context() as patched:
            kill_before(number, patched)
            code = in_child(lambda output=output: write_texts(output))  # type: ignore[misc]
        if code == 0:
            break
        assert code == -signal.SIGKILL
        if not (output / ".nv-meta/.info.json").exists() or (output / ".nv-meta/.writing").exists():
            done = {file.stem for file in output.glob(".nv-meta/.writing/main/shard_*.json")}
            written = times_of_change(output)
            resumed, samples = write_texts(output)
            now = times_of_change(output)
            assert (resumed, samples) == (4 * len(done), SAMPLES - 4 * len(done))
            assert {name: now[name] for name in done} == {name: written[name] for name in done}
        assert shards_of(output) == shards_of(tmp_path / "whole")
        assert len(folder_at(output).index) == SAMPLES
        number += every
    assert number > 20, "a writer changes the disk at least so often"
