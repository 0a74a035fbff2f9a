"""Each tool reads the media metadata of the other, in shards and in folders of files."""

from __future__ import annotations

import io
import sqlite3
import wave
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest
from PIL import Image

from loader.format.media.metadata import MediaMetadataReader
from loader.storage import open_storage
from tests.cli.make_dataset import write_shard

from .conftest import WHOLE, Peer, Program

EXTENSION = "--media-metadata-by-extension"


def image(form: str, mode: str = "RGB") -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, (31, 17)).save(buffer, form)
    return buffer.getvalue()


def sound() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(bytes(4 * 12000))
    return buffer.getvalue()


FILES = {
    "a.jpg": image("JPEG"),
    "b.seg.png": image("PNG", "RGBA"),
    "sub/c.webp": image("WEBP"),
    "sub/it's.gif": image("GIF", "P"),
    "t.tiff": image("TIFF"),
    "u.bmp": image("BMP"),
    "v.jp2": image("JPEG2000"),
    "w.wav": sound(),
    "x.txt": b"a text",
}
MEDIA = sorted(FILES.keys() - {"x.txt"})


def write_files(folder: Path) -> Path:
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def write_dataset(folder: Path) -> Path:
    samples = {}
    for name, data in FILES.items():
        parent, slash, base = name.rpartition("/")
        key, _, part = base.partition(".")
        samples[parent + slash + key] = {part: data}
    write_shard(folder / "shard.tar", samples)
    return folder


def prepare(tool: Program, folder: Path, kind: str) -> Path:
    if kind == "shards":
        return tool.prepare(folder, EXTENSION, *WHOLE)
    tool.run("prepare-media", "--no-progress", "--num-workers", "2", EXTENSION, folder)
    return folder


def tables(folder: Path) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    with closing(sqlite3.connect(folder / ".nv-meta/index.sqlite")) as database:
        rows = database.execute("SELECT * FROM media_metadata ORDER BY entry_key").fetchall()
        return rows, database.execute("SELECT strategy, patterns FROM media_filters").fetchall()


@pytest.mark.parametrize(
    ("kind", "write"), [("shards", write_dataset), ("files", write_files)], ids=["shards", "files"]
)
def test_both_tools_write_the_same_and_read_each_others(
    tmp_path: Path, ours: Program, peer: Peer, kind: str, write: Callable[[Path], Path]
) -> None:
    by_us = prepare(ours, write(tmp_path / "ours"), kind)
    by_peer = prepare(peer, write(tmp_path / "peers"), kind)
    assert tables(by_us) == tables(by_peer)
    with closing(MediaMetadataReader(open_storage(by_peer))) as reader:
        found = {name: reader.get(name) for name in MEDIA}
    expected = {
        name: [
            type(metadata).__name__,
            {field: value for field, value in asdict(metadata).items() if value is not None},
        ]
        for name, metadata in found.items()
    }
    assert peer.read("media", by_us, *MEDIA) == expected


def test_our_prepare_continues_with_the_filter_of_the_peer(tmp_path: Path, ours: Program, peer: Peer) -> None:
    folder = prepare(peer, write_dataset(tmp_path / "peers"), "shards")
    write_shard(folder / "more.tar", {"more": {"jpg": image("JPEG"), "bin": image("PNG")}})
    ours.prepare(folder)
    rows, filters = tables(folder)
    assert [row[0] for row in rows] == sorted([*MEDIA, "more.jpg"])
    assert filters == [("EXTENSION", "")]
