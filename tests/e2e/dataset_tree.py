"""Write folders of small shards, and read the files of a prepare in a comparable form."""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from loader.dataset.opening import folder_at
from loader.errors import FormatError, StorageError
from loader.prepare.plan import PreparePlan, PrepareReport, SplitRequest
from loader.prepare.run import run_prepare

Samples = Mapping[str, Mapping[str, bytes]]  # key → part name → content

RATIO = SplitRequest(ratio={"train": 2.0, "val": 1.0})
_START_NS = 1_700_000_000_000_000_000


def caption_samples(first: int, count: int, *, prefix: str = "") -> dict[str, dict[str, bytes]]:
    """Return samples of a text and a json; sizes differ, so that no two shards are alike."""
    return {
        f"{prefix}{number:05d}": {
            "json": json.dumps({"number": number, "filler": "x" * (number * 131 % 700)}).encode(),
            "txt": f"text {number}".encode(),
        }
        for number in range(first, first + count)
    }


def members_of(samples: Samples) -> list[tuple[str, bytes]]:
    return [(f"{key}.{part}", data) for key, parts in samples.items() for part, data in parts.items()]


def write_tar(path: Path, members: Iterable[tuple[str, bytes]], *, form: int = tarfile.GNU_FORMAT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=form, encoding="utf-8", errors="surrogateescape") as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def write_shard(path: Path, samples: Samples, *, form: int = tarfile.GNU_FORMAT) -> Path:
    return write_tar(path, members_of(samples), form=form)


def write_shards(folder: Path, count: int = 6, *, samples: int = 3, form: int = tarfile.GNU_FORMAT) -> Path:
    """Write ``shard_000.tar`` and so on, with different modification times."""
    for number in range(count):
        path = write_shard(shard_path(folder, number), caption_samples(number * samples, samples), form=form)
        os.utime(path, ns=(_START_NS, _START_NS + number))
    return folder


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"shard_{number:03d}.tar"


def prepare(folder: Path, *, split: SplitRequest | None = RATIO, **options: Any) -> PrepareReport:
    return run_prepare(PreparePlan(path=str(folder), split=split, **options))


def copy_of(folder: Path, target: Path) -> Path:
    """Copy only the shards, with their modification times."""
    return shutil.copytree(folder, target, ignore=shutil.ignore_patterns(".nv-meta", "*.idx"))


def index_uuid(folder: Path) -> str:
    return (folder / ".nv-meta/index.uuid").read_text()


def sqlite_rows(folder: Path) -> dict[str, Sequence[tuple[object, ...]]]:
    """Return the schema and rows of ``index.sqlite``, in an order that does not depend on how it was written."""
    with closing(sqlite3.connect(f"file:{folder}/.nv-meta/index.sqlite?mode=ro", uri=True)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return {
            "schema": database.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall(),
            "samples": database.execute("SELECT * FROM samples ORDER BY tar_file_id, sample_index").fetchall(),
            "sample_parts": database.execute(
                "SELECT * FROM sample_parts ORDER BY tar_file_id, sample_index, content_byte_offset"
            ).fetchall(),
        }


def written(folder: Path, *, sqlite_as_rows: bool = False) -> dict[str, object]:
    """Return every file of a dataset except its shards and the lock, by path, without times and uuids.

    The index of the previous prepare, which running jobs may still read, is excluded too.
    """
    found: dict[str, object] = {}
    uuid = index_uuid(folder) if (folder / ".nv-meta/index.uuid").exists() else "-"
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.endswith(".tar") or name == ".nv-meta/.lock" or path.is_dir():
            continue
        data: object = path.read_bytes()
        if name == ".nv-meta/index.uuid":
            data = "uuid"
        elif name == ".nv-meta/index.sqlite" and sqlite_as_rows:
            data = sqlite_rows(folder)
        elif name.startswith(".nv-meta/index/"):
            if not name.startswith(f".nv-meta/index/{uuid}/"):
                continue
            name = name.replace(uuid, "UUID")
            if name.endswith("layout.json"):
                layout = json.loads(path.read_bytes())
                del layout["prepared_at"]
                data = layout
        found[name] = data
    return found


def contents(path: str | Path) -> dict[str, dict[str, bytes]]:
    """Return the parts of all samples by key; those of samples that cannot be read are missing."""
    dataset = folder_at(path)
    found = {}
    for sample in range(len(dataset.index)):
        try:
            found[dataset.index.full_key(sample)] = dataset.read_parts(sample)
        except (FormatError, StorageError):
            found[dataset.index.full_key(sample)] = {}  # its shard has changed since, or was removed
    dataset.close()
    return found


def comparable_files(folder: Path) -> dict[str, object]:
    """Return what a prepare wrote, without what differs between stores.

    That are the identity of the index, and the times and versions of shards.
    """
    found = written(folder)
    info = found[".nv-meta/.info.json"]
    assert isinstance(info, bytes)
    found[".nv-meta/.info.json"] = json.loads(info)
    layout: Any = found[".nv-meta/index/UUID/layout.json"]
    for shard in layout["shards"]:
        del shard["mtime_ns"]
        shard.pop("etag", None)
        shard.pop("store", None)
    return found


def times_of_change(folder: Path) -> dict[str, tuple[int, int]]:
    """Return inode and modification time of every file and folder except the lock."""
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.name != ".lock"
    }
