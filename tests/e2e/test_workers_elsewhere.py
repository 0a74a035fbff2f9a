"""Workers that run in another folder, or on a machine with other files, read and write what the command names."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from loader.engine.ray_executor import RayEngine
from tests.cli.run_energon import RunEnergon, run_in_this_process
from tests.e2e.dataset_tree import write_shards
from tests.e2e.test_convert_shares import files_of
from tests.unit.convert.importing.test_run import write_photos

# Later lines read what earlier ones have written.
LINES = (
    "import photos ds --yes --samples-per-shard 5 --from folder --sample-type CrudeWebdataset",
    "import photos/t.jsonl table --yes --samples-per-shard 5",
    "prepare tars --non-interactive --split-ratio 1",
    "reshard ds small --samples-per-shard 3",
    "add-parts ds added --from new.jsonl",
    "export ds out.jsonl",
    "export ds out --format webdataset",
    "export ds out.parquet",
    "import out.parquet rows --yes",
    "import photos.zip members --yes",
    "import photos.tar inner --yes",
    "lint ds",
    "stats ds --duplicates",
    "stats ds --write jpg.width",
    "map ds f.py:length --write length",
    "map ds f.py:copy --to-dataset mapped",
    "map ds f.py:parts --to-parts parts",
    "embed ds --model phash",
    "exclude ds --duplicates --yes",
    "lint mix.yaml",
)

FUNCTIONS = """
def length(sample):
    return len(sample["txt"])

def copy(sample):
    return {"txt": sample["txt"]}

def parts(sample):
    return {"title.txt": sample["txt"].upper()}
"""

MIX = """
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train:
    path: ./ds
"""


def write_inputs(folder: Path, word: str) -> Path:
    """Write a folder of photos, a table, lines of texts, tar shards, a module and a mix; texts contain the word."""
    folder.mkdir()
    photos = write_photos(folder / "photos", 12)
    rows = []
    for number in range(12):
        noise = np.random.default_rng(number).integers(0, 255, (8, 8, 3), np.uint8)
        Image.fromarray(noise).resize((64, 64)).save(photos / f"{number:03d}.jpg")
        (photos / f"{number:03d}.txt").write_text(f"{word} {number}")
        rows.append({"id": f"{number:03d}", "image": f"{number:03d}.jpg", "caption": f"{word} {number}"})
    for file in (photos / "t.jsonl", folder / "new.jsonl"):
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    rows = [{"id": row["id"], "title": word} for row in rows]
    (folder / "new.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for path in (*photos.iterdir(), photos):
        os.utime(path, (1_700_000_000, 1_700_000_000))  # times are in archives
    for kind in ("zip", "tar"):
        shutil.make_archive(str(folder / "photos"), kind, photos)
    (folder / "f.py").write_text(FUNCTIONS)
    (folder / "mix.yaml").write_text(MIX)
    write_shards(folder / "tars", 3)
    for path in folder.rglob("*.*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))  # times are in the index
    return folder


@pytest.fixture
def energon(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunEnergon:
    return run_in_this_process(capfd, monkeypatch)


def on_ray(monkeypatch: pytest.MonkeyPatch, executor: Executor) -> None:
    """Let ``--engine ray`` use another executor."""
    monkeypatch.setattr(RayEngine, "open", lambda *_: nullcontext(RayEngine(executor=executor)))


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_workers_in_a_folder_with_datasets_of_the_same_names_touch_none(
    energon: RunEnergon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Run all commands in one process: in a folder for the comparison, and in the folder of the workers.
    folders = [write_inputs(tmp_path / name, word) for name, word in (("one", "a"), ("here", "a"), ("there", "other"))]
    one, here, there = folders
    for folder in (one, there):
        monkeypatch.chdir(folder)
        for line in LINES:
            done = energon(*line.split())
            assert done.code == 0, (line, done.err)
    # Run them again with a worker there.
    before = snapshot(there)
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=os.chdir, initargs=(there,)) as executor:
        on_ray(monkeypatch, executor)
        monkeypatch.chdir(here)
        for line in LINES:
            done = energon(*line.split(), "--engine", "ray")
            assert done.code == 0, (line, done.err)
    assert snapshot(there) == before
    assert [*results(here)] == [*results(one)]
    assert [name for name, data in results(here).items() if data != results(one)[name]] == []


def results(folder: Path) -> dict[str, bytes]:
    """Return the shards, exports, columns and splits that commands have written."""
    files = {name: folder / name for name in files_of(folder)}
    kinds = (".tar", ".jsonl", ".jpg", ".txt", "split.yaml")
    return {name: path.read_bytes() for name, path in files.items() if name.endswith(kinds) or "/columns/" in name}


class OtherMachine(Executor):
    """Run tasks while a link leads to other files, as the same path does on another machine."""

    def __init__(self, link: Path, there: Path) -> None:
        self.link, self.here, self.there = link, link.readlink(), there

    def submit(self, fn: Callable[..., Any], /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._lead_to(self.there)
        try:
            future.set_result(fn(*arguments))
        except Exception as error:  # noqa: BLE001 - as executors do
            future.set_exception(error)
        finally:
            self._lead_to(self.here)
        return future

    def _lead_to(self, folder: Path) -> None:
        self.link.unlink()
        self.link.symlink_to(folder)


_WRITERS = ("import photos ds", "reshard", "export ds out.jsonl", "map ds f.py:copy", "map ds f.py:parts")


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith(_WRITERS)])
def test_a_worker_that_sees_another_folder_writes_nothing(
    line: str, energon: RunEnergon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = (write_inputs(tmp_path / name, name) for name in ("here", "there"))
    for folder in (here, there):
        monkeypatch.chdir(folder)
        assert energon(*LINES[0].split()).code == 0
        if folder == there and line != LINES[0]:
            assert energon(*line.split()).code == 0
    if line == LINES[0]:
        shutil.rmtree(here / "ds")
    before = snapshot(there)
    (tmp_path / "data").symlink_to(here)
    on_ray(monkeypatch, OtherMachine(tmp_path / "data", there))
    monkeypatch.chdir(tmp_path)
    words = [f"{tmp_path}/data/{word}" if (there / word).exists() else word for word in line.split()]
    words = [word.replace("f.py", f"{there}/f.py") for word in words]
    done = energon(*words, "--engine", "ray")
    assert done.code == 1
    assert "a worker does not see the work of this command here" in done.err
    assert f"at: {tmp_path}/data" in done.err
    assert snapshot(there) == before
