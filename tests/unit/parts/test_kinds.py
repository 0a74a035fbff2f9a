"""Names and first bytes of real files tell what they are."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import tarfile
import wave
import zipfile
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image
from webdataset.autodecode import IMAGE_EXTENSIONS, decoders

from loader.parts import kinds
from loader.parts.kinds import HEADER_BYTES, kind_of_bytes, kind_of_name, part_extension, with_extension


@pytest.mark.parametrize(
    ("part_name", "kind"),
    [
        ("jpg", "image"),
        ("JPG", "image"),
        ("seg.png", "image"),
        ("jpg.seg", "bytes"),
        ("txt", "text"),
        ("TXT", "text"),
        ("Json.GZ", "tree"),
        ("left.CLS", "label"),
        ("NPY", "array"),
        ("PKL", "pickle"),
        ("left.txt", "text"),
        ("cls", "label"),
        ("json", "tree"),
        ("json.gz", "tree"),
        ("gz", "bytes"),
        ("npy", "array"),
        ("pkl", "pickle"),
        ("mp4", "video"),
        ("MP4", "video"),
        ("wav", "audio"),
        ("bin", "bytes"),
        ("", "bytes"),
    ],
)
def test_the_last_extension_tells_what_a_part_holds(part_name: str, kind: str) -> None:
    assert kind_of_name(part_name) == kind


def test_compression_is_no_extension() -> None:
    assert part_extension("json.gz") == "json"
    assert part_extension("json.gz.gz") == "gz"


def test_the_images_are_those_of_webdataset_but_for_four_that_are_none_and_newer_formats() -> None:
    assert frozenset(IMAGE_EXTENSIONS) - kinds.IMAGE == {"mpg", "mpeg", "h5", "hdf"}
    assert kinds.IMAGE - frozenset(IMAGE_EXTENSIONS) == {"avif", "heic", "heif", "hif", "jxl"}


def test_everything_that_webdataset_decodes_is_decoded_and_jsonl() -> None:
    ours = kinds.ARRAY | kinds.LABEL | kinds.PICKLE | kinds.TEXT | kinds.TREE
    assert ours == set(decoders) | {"jsonl"}


def test_no_extension_is_of_two_kinds() -> None:
    sets = ("ARRAY", "AUDIO", "IMAGE", "LABEL", "PICKLE", "TEXT", "TREE", "VIDEO")
    names = [name for kind in sets for name in getattr(kinds, kind)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("form", "extension"),
    [
        ("AVIF", "avif"),
        ("BMP", "bmp"),
        ("DDS", "dds"),
        ("GIF", "gif"),
        ("ICO", "ico"),
        ("JPEG", "jpg"),
        ("JPEG2000", "jp2"),
        ("PNG", "png"),
        ("TIFF", "tif"),
        ("WEBP", "webp"),
    ],
)
def test_pictures_that_pillow_writes_are_told_by_their_bytes(form: str, extension: str) -> None:
    Image.init()
    if form not in Image.SAVE:
        pytest.skip(f"this Pillow writes no {form}")
    data = _written(lambda file: Image.new("RGB", (16, 16)).save(file, form))
    found = kind_of_bytes(data[:HEADER_BYTES], len(data))
    assert (found.kind, found.extension) == ("image", extension)


@pytest.mark.parametrize(
    ("plugin", "opener", "form", "extension"),
    [("pillow_heif", "register_heif_opener", "HEIF", "heic"), ("pillow_jxl", None, "JXL", "jxl")],
)
def test_pictures_that_plugins_write_are_told_by_their_bytes(
    plugin: str, opener: str | None, form: str, extension: str
) -> None:
    module = pytest.importorskip(plugin)
    if opener is not None:
        getattr(module, opener)()
    data = _written(lambda file: Image.new("RGB", (64, 64)).save(file, form))
    assert kind_of_bytes(data[:HEADER_BYTES]).extension == extension


@pytest.mark.parametrize("container", ["mp4", "mov", "matroska", "webm", "flac", "mp3", "ogg", "avi", "mpegts"])
def test_sound_and_video_that_ffmpeg_writes_are_told_by_their_bytes(container: str) -> None:
    av = pytest.importorskip("av")
    file = io.BytesIO()
    codecs = {"flac": "flac", "mp3": "mp3", "ogg": "flac"}
    with av.open(file, "w", format=container) as output:
        if container in codecs:
            stream = output.add_stream(codecs[container], rate=44100)
            frame = av.AudioFrame(format=stream.format.name, layout=stream.layout.name, samples=1152)
            frame.rate = 44100
        else:
            stream = output.add_stream({"webm": "libvpx"}.get(container, "mpeg4"), rate=10)
            stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
            frame = av.VideoFrame(32, 32, "yuv420p")
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            output.mux(packet)
    found = kind_of_bytes(file.getvalue())
    assert found.extension == {"matroska": "mkv", "mpegts": "ts"}.get(container, container)
    assert found.kind == ("audio" if container in codecs else "video")


def _written(write: Callable[[Any], Any]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def _wav(file: io.BytesIO) -> None:
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(100))


def _zip(file: io.BytesIO) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "hello")


def _tar(file: io.BytesIO) -> None:
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"))


_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.mark.parametrize(
    ("data", "kind", "extension"),
    [
        (_written(_wav), "audio", "wav"),
        (_written(lambda file: np.save(file, np.zeros(3))), "array", "npy"),
        (_written(lambda file: np.savez(file, a=np.zeros(3))), "array", "npz"),
        (_written(lambda file: torch.save({"a": torch.zeros(3)}, file)), "array", "pth"),
        (_written(_zip), "archive", "zip"),
        (_written(_tar), "archive", "tar"),
        (gzip.compress(b"a text"), "archive", "gz"),
        (pickle.dumps({"a": 1}), "pickle", "pkl"),
        (pickle.dumps([1], protocol=2), "pickle", "pkl"),
        (b"%PDF-1.7\n%\xe2\xe3", "document", "pdf"),
        (b"PAR1\x15\x04", "table", "parquet"),
        (json.dumps({"caption": "a cat"}).encode(), "tree", "json"),
        (json.dumps([{"x": 1}] * 200).encode(), "tree", "json"),
        (b'{"a": 1}\n{"a": 2}\n', "tree", "jsonl"),
        (msgspec.msgpack.encode({"caption": "a cat", "score": 0.5}), "tree", "msg"),
        ("eine Katze läuft".encode(), "text", "txt"),
        ("ä".encode() * 600, "text", "txt"),
        ("кошка".encode("utf-16"), "text", "txt"),
        (b"BM is a company, and so is [this one]", "text", "txt"),
        (b"[1] A footnote, not a document", "text", "txt"),
        (b"{a cat} sat", "text", "txt"),
        (b"", "empty", ""),
        (_POINTER, "pointer", ""),
        (b"/annex/objects/SHA256E-s12--4d7a.jpg\n", "pointer", ""),
        (b"\n<!DOCTYPE html><html><title>404 Not Found</title></html>", "page", "html"),
        (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "page", "xml"),
        (b"\x00\x01\x02\x03", "bytes", ""),
        ("кошка".encode("koi8-r"), "bytes", ""),
    ],
    ids=lambda value: "data" if isinstance(value, bytes) else value or "none",
)
def test_other_files_are_told_by_their_bytes(data: bytes, kind: str, extension: str) -> None:
    found = kind_of_bytes(data[:HEADER_BYTES], len(data))
    assert (found.kind, found.extension) == (kind, extension)


def test_parts_get_the_extension_of_media_and_never_that_of_a_text() -> None:
    assert with_extension("left.jpg", b"hello") == "left.jpg"
    assert with_extension("left.jpg", _written(_wav)) == "left.wav"
    assert with_extension("jpg", _POINTER) == "jpg"
