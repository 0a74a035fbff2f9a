"""An import that is killed at any moment is continued by the next run, which repeats no shard that is written."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from loader.convert.rows.shard_layout import ShardLayout
from loader.engine import AlreadyDoneError
from tests.e2e.test_prepare_kills import every_call, in_child, kill_before
from tests.unit.convert.importing.test_run import import_folder, samples_of, shards_of, write_photos

WRITTEN = ".nv-meta/.import/*.json"  # a file for each shard that was written
LAYOUT = ShardLayout(samples_per_shard=5, shuffle_seed=1, split_ratio={"train": 3, "val": 1})


def times_of_change(output: Path) -> dict[str, int]:
    return {shard.name: shard.stat().st_mtime_ns for shard in output.glob("*.tar")}


@every_call
def test_a_kill_before_any_call_that_changes_the_disk(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = write_photos(tmp_path / "photos", 20)
    import_folder(photos, tmp_path / "whole", layout=LAYOUT)
    expected, number = shards_of(tmp_path / "whole"), every
    while True:
        output = tmp_path / str(number)
        with monkeypatch.context() as patched:
            kill_before(number, patched)
            code = in_child(lambda output=output: import_folder(photos, output, layout=LAYOUT))  # type: ignore[misc]
        if code == 0:
            break
        assert code == -signal.SIGKILL
        written = times_of_change(output) if output.exists() else {}
        done = {file.stem for file in output.glob(WRITTEN)}
        with suppress(AlreadyDoneError):
            import_folder(photos, output, layout=LAYOUT)
        now = times_of_change(output)
        assert {name: now[name] for name in done} == {name: written[name] for name in done}
        assert shards_of(output) == expected
        assert len(samples_of(output)) == 20
        number += every
    assert number > 20, "the import changes the disk at least so often"


@pytest.mark.slow
def test_kills_of_the_process_group_at_random_moments(tmp_path: Path) -> None:
    photos, output = write_photos(tmp_path / "photos", 200), tmp_path / "out"
    begin = [sys.executable, "-m", "energon_cli", "import", str(photos)]
    options = ["--yes", "--split-ratio", "1", "--samples-per-shard", "5", "--num-workers", "2", "--no-progress"]
    subprocess.run([*begin, str(tmp_path / "whole"), *options], stdout=subprocess.DEVNULL, check=True)
    command = ["nice", "-n", "5", *begin, str(output), *options]  # else it may be done before this process looks
    chance, kept, kills = random.Random(1), dict[str, int](), 0
    while True:
        process = subprocess.Popen(
            command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        due = len(kept) + chance.randint(3, 20)  # shards that were written
        while process.poll() is None and len(list(output.glob(WRITTEN))) < due:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.01))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        _, errors = process.communicate()
        code = process.returncode
        now = times_of_change(output) if output.exists() else {}
        assert {name: now.get(name) for name in kept} == kept, "a shard that was written is written again"
        if code == 0 or "this folder is a prepared dataset" in errors:  # the last kill came after the commit
            break
        assert code == -signal.SIGKILL, errors
        kept = {file.stem: now[file.stem] for file in output.glob(WRITTEN)}
    assert kills
    assert shards_of(output) == shards_of(tmp_path / "whole")
