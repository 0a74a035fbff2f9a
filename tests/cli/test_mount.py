"""``energon mount`` through the kernel: files as other programs see them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loader.errors import ConfigError
from loader.inspect.mount import MountedTree, Naming, open_tree
from tests.cli.make_mix import write_datasets, write_mix
from tests.cli.run_energon import RunEnergon

ENERGON = [sys.executable, "-m", "energon_cli"]


def can_mount() -> bool:
    try:
        import mfusepy  # noqa: F401 - it loads libfuse
    except (ImportError, OSError):
        return False
    return os.access("/dev/fuse", os.W_OK) and shutil.which("fusermount3") is not None


needs_fuse = pytest.mark.skipif(not can_mount(), reason="needs mfusepy, libfuse 3, fusermount3 and /dev/fuse")


@pytest.fixture
def point(tmp_path: Path) -> Iterator[Path]:
    point = tmp_path / "point"
    point.mkdir()
    yield point
    subprocess.run(["fusermount3", "-uzq", str(point)], check=False)


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [*ENERGON, "mount", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_end(point: Path) -> None:
    limit = time.monotonic() + 10
    while os.path.ismount(point) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not os.path.ismount(point)


@needs_fuse
@pytest.mark.parametrize("end", ["unmount", "Ctrl-C", "kill"])
def test_other_programs_read_the_parts_until_the_end(prepared: Path, point: Path, end: str) -> None:
    process = start("--json", "-s", prepared, point)
    assert process.stdout is not None
    facts = json.loads(process.stdout.readline())
    assert facts == {"path": str(prepared), "directory": str(point), "process": process.pid}
    keys = sorted(os.listdir(point))
    assert len(keys) == 12
    picture = point / keys[0] / "jpg"
    assert picture.read_bytes()[:2] == b"\xff\xd8"
    copied = subprocess.run(["cat", str(picture)], capture_output=True, check=True).stdout
    assert len(copied) == picture.stat().st_size == len(picture.read_bytes())
    with pytest.raises(OSError, match="Read-only file system"):
        (point / "new").write_text("x")
    with pytest.raises(FileNotFoundError):
        (point / "nothing").read_bytes()
    if end == "unmount":
        subprocess.run(["fusermount3", "-u", str(point)], check=True)
    else:
        process.send_signal(signal.SIGINT if end == "Ctrl-C" else signal.SIGTERM)
    process.communicate(timeout=20)
    wait_for_end(point)
    assert os.listdir(point) == []


@needs_fuse
def test_a_damaged_shard_is_an_input_output_error_and_named_in_the_log(prepared: Path, point: Path) -> None:
    process = start("--json", prepared, point)
    assert process.stdout is not None
    process.stdout.readline()
    name = min(os.listdir(point))
    shard = min(prepared.glob("*.tar"))
    shard.write_bytes(b"")
    with pytest.raises(OSError, match="Input/output error"):
        (point / name).read_bytes()
    subprocess.run(["fusermount3", "-u", str(point)], check=True)
    _, messages = process.communicate(timeout=20)
    assert shard.name in messages


@needs_fuse
def test_in_the_background_the_command_returns_once_files_can_be_read(prepared: Path, point: Path) -> None:
    done = subprocess.run(
        [*ENERGON, "mount", "-ds", "--json", prepared, point], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout)["directory"] == str(point)
    assert f"fusermount3 -u {point}" in done.stderr
    assert len(os.listdir(point)) == 12
    subprocess.run(["fusermount3", "-u", str(point)], check=True)
    wait_for_end(point)


@needs_fuse
def test_in_the_background_an_error_is_that_of_the_foreground(tmp_path: Path, point: Path) -> None:
    command = [*ENERGON, "mount", str(tmp_path / "missing"), str(point)]
    shown = [
        subprocess.run([*command, *flag], capture_output=True, text=True, check=False, timeout=60)
        for flag in ([], ["-d"])
    ]
    assert shown[0].returncode == shown[1].returncode == 1
    assert shown[0].stderr == shown[1].stderr
    assert "missing" in shown[0].stderr


@needs_fuse
def test_folders_that_are_no_mount_points_are_refused(prepared: Path, tmp_path: Path, energon: RunEnergon) -> None:
    (tmp_path / "file").write_text("x")
    for name, reason in (("none", "there is no such folder"), ("file", "found a file"), (".", "an empty folder")):
        done = energon("mount", prepared, tmp_path / name)
        assert done.code == 1
        assert reason in done.err


def test_without_the_extra_the_error_names_it(
    prepared: Path, tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mfusepy", None)
    done = energon("mount", prepared, tmp_path)
    assert done.code == 1
    assert "pip install 'energon-toolkit[mount]'" in done.err


@pytest.fixture(scope="module")
def unprepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_datasets(tmp_path_factory.mktemp("datasets"))
    write_mix(folder, train=[{"path": "a"}, {"path": "texts.jsonl"}, {"path": "raw"}])
    return folder


def files_of(tree: MountedTree, path: str = "") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in tree.names(path or "/"):
        child = f"{path}/{name}"
        entry = tree.entry(child)
        assert entry is not None
        found |= files_of(tree, child) if entry.is_folder else {child[1:]: tree.read(child, 0, entry.size_bytes)}
    return found


def test_a_single_file_has_a_file_for_each_sample(unprepared: Path) -> None:
    tree = open_tree(str(unprepared / "texts.jsonl"), Naming())
    lines = (unprepared / "texts.jsonl").read_bytes().splitlines()
    assert files_of(tree) == {f"{number}.json": line for number, line in enumerate(lines)}
    tree.close()


@pytest.mark.parametrize("single", [False, True])
def test_shards_that_are_not_prepared_are_scanned_and_nothing_is_left(
    unprepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, single: bool
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    shards = sorted((unprepared / "raw").glob("*.tar"))
    members: dict[str, bytes] = {}
    for shard in shards[:1] if single else shards:
        with tarfile.open(shard) as tar:
            for member in tar:
                file = tar.extractfile(member)
                members[member.name] = b"" if file is None else file.read()
    before = sorted((unprepared / "raw").iterdir())
    tree = open_tree(str(shards[0] if single else unprepared / "raw"), Naming())
    assert files_of(tree) == members
    assert [*temporary.iterdir()]
    tree.close()
    assert not [*temporary.iterdir()]
    assert sorted((unprepared / "raw").iterdir()) == before


def test_shards_that_are_not_prepared_have_no_split_parts(unprepared: Path) -> None:
    with pytest.raises(ConfigError, match="not prepared, so they have no split part 'train'"):
        open_tree(str(unprepared / "raw"), Naming(), split_part="train")
    tree = open_tree(str(unprepared / "mix.yaml"), Naming())
    found = files_of(tree)
    assert b"run energon prepare" in found["train/2_raw/ERROR.txt"]
    assert "train/1_texts.jsonl/0.json" in found
    tree.close()


@needs_fuse
@pytest.mark.parametrize("path", ["texts.jsonl", "raw"])
def test_other_programs_read_single_files_and_shards_that_are_not_prepared(
    unprepared: Path, point: Path, path: str
) -> None:
    process = start("--json", unprepared / path, point)
    assert process.stdout is not None
    process.stdout.readline()
    assert all((point / name).read_bytes() for name in os.listdir(point))
    assert os.listdir(point)
    subprocess.run(["fusermount3", "-u", str(point)], check=True)
    process.communicate(timeout=20)
