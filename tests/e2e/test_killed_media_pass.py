"""A prepare that is killed while its workers read media leaves only its journal; the next run resumes from it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loader.format.media.metadata import MediaFilter
from loader.prepare.plan import PreparePlan
from loader.prepare.run import run_prepare
from tests.cli.make_dataset import write_captions
from tests.e2e.dataset_tree import RATIO, written
from tests.processes import has_processes, wait_until

SHARDS = 6

PROGRAM = """
import multiprocessing, os, signal, sys
from loader.format.media.metadata import MediaFilter
from loader.prepare import run_prepare
from loader.prepare.plan import PreparePlan, SplitRequest

if __name__ == "__main__":
    folder, mark, whom = sys.argv[1:]
    multiprocessing.current_process()._config["semprefix"] = "/" + mark  # as Python names its semaphores

    def kill(now):
        if now.phase == "media" and 0 < now.samples < now.samples_total:
            print("killed in the media pass", flush=True)
            (os.kill if whom == "main" else os.killpg)(os.getpid(), signal.SIGKILL)

    media = MediaFilter(strategy="HEADER")
    run_prepare(PreparePlan(path=folder, workers=3, media=media), on_progress=kill)
"""


@pytest.mark.parametrize("whom", ["main", "all"])
@pytest.mark.sampled(2)
def test_a_kill_in_the_media_pass_leaves_the_journal_and_the_next_run_has_the_same_result(
    tmp_path: Path, whom: str
) -> None:
    temporary, mark = tmp_path / "temporary", f"media{os.getpid()}{whom}"
    temporary.mkdir()
    folder = write_captions(tmp_path / "killed", shards=SHARDS)
    undisturbed = shutil.copytree(folder, tmp_path / "undisturbed")
    (tmp_path / "program.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "program.py"), str(folder), mark, whom],
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.communicate(timeout=60)[0] == "killed in the media pass\n"
    assert process.returncode == -signal.SIGKILL
    wait_until(lambda: not has_processes(process.pid))
    assert [name for name in os.listdir("/dev/shm") if mark in name] == []
    assert list(temporary.iterdir()) == []
    assert {path.name for path in folder.iterdir() if path.suffix != ".tar"} == {".nv-meta"}
    assert {path.name for path in (folder / ".nv-meta").iterdir()} == {".lock", ".prepare"}
    plans = [
        PreparePlan(path=str(path), media=MediaFilter(strategy="HEADER"), split=RATIO) for path in (folder, undisturbed)
    ]
    resumed, whole = map(run_prepare, plans)
    assert (resumed.resumed, whole.resumed) == (SHARDS, 0)
    assert resumed.media == whole.media
    assert resumed.media is not None
    assert resumed.media.entries > SHARDS
    assert written(folder, sqlite_as_rows=True) == written(undisturbed, sqlite_as_rows=True)
    assert not (folder / ".nv-meta/.prepare").exists()
