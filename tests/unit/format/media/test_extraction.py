"""Extract metadata of each kind of image, audio and video, and of damaged files, from as few bytes as possible."""

from __future__ import annotations

import io
import struct
import wave
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from loader.errors import ConfigError
from loader.format.media import import_av
from loader.format.media.extraction import BrokenMedia, FileRegion, extract_media
from loader.format.media.metadata import AVMetadata, ImageMetadata, MediaFilter
from loader.storage import open_storage

HEADER = MediaFilter(strategy="HEADER")
EXTENSION = MediaFilter(strategy="EXTENSION")
EVERYTHING = MediaFilter(strategy="GLOB", patterns=("*",))


def image(form: str, mode: str = "RGB", size: tuple[int, int] = (20, 10), **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, form, **options)
    return buffer.getvalue()


def sound() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(4 * 4000))
    return buffer.getvalue()


class Extract:
    """Extract from bytes inside a larger file, as parts are stored in shards."""

    region: FileRegion

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, data: bytes, name: str, media_filter: MediaFilter) -> AVMetadata | ImageMetadata | None:
        (self.folder / "shard").write_bytes(b"\xff" * 1000 + data + b"\xff" * 1000)
        with open_storage(self.folder).open("shard") as file:
            self.region = FileRegion(file, 1000, len(data))
            return extract_media(self.region, name, media_filter)


@pytest.fixture
def extract(tmp_path: Path) -> Extract:
    return Extract(tmp_path)


IMAGES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "jpg": ("JPEG", "RGB", {}),
    "jpeg": ("JPEG", "CMYK", {}),
    "png": ("PNG", "RGBA", {}),
    "webp": ("WEBP", "RGB", {}),
    "gif": ("GIF", "P", {}),
    "tiff": ("TIFF", "RGB", {}),
    "bmp": ("BMP", "RGB", {}),
    "jp2": ("JPEG2000", "RGB", {}),
}


@pytest.mark.parametrize("media_filter", [HEADER, EXTENSION, EVERYTHING], ids=["header", "extension", "glob"])
@pytest.mark.parametrize("extension", IMAGES)
def test_an_image_is_known_by_name_and_by_header(extract: Extract, extension: str, media_filter: MediaFilter) -> None:
    form, mode, options = IMAGES[extension]
    expected = ImageMetadata(width=20, height=10, format=form, mode=mode)
    assert extract(image(form, mode, **options), f"a.{extension.upper()}", media_filter) == expected


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("options", [{}, {"lossless": True}, {"exif": b"Exif\0\0" + bytes(20)}, {"save_all": True}])
def test_webp_headers_say_what_pillow_says(extract: Extract, mode: str, options: dict[str, Any]) -> None:
    data = image("WEBP", mode, (301, 47), **options)
    with Image.open(io.BytesIO(data)) as opened:
        expected = ImageMetadata(width=opened.width, height=opened.height, format="WEBP", mode=opened.mode)
    assert extract(data, "a.webp", EXTENSION) == expected


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "GIF", "BMP"])
def test_of_a_large_image_only_the_first_kilobytes_are_read(extract: Extract, form: str) -> None:
    noise = Image.effect_noise((900, 900), 100).convert("RGB")
    buffer = io.BytesIO()
    noise.save(buffer, form)
    assert len(buffer.getvalue()) > 200_000
    found = extract(buffer.getvalue(), "a", HEADER)
    assert isinstance(found, ImageMetadata)
    assert found.width == 900
    assert extract.region.bytes_read <= 40 * 1024


GREEDY = {
    "avif": b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf",
    "jp2": b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14ftypjp2 \0\0\0\0jp2 \0\0\0\1jp2h" + struct.pack(">Q", 1 << 27),
    "tif": b"II*\0"
    + struct.pack("<IH", 8, 3)
    + b"".join(struct.pack("<HHII", *entry) for entry in ((256, 4, 1, 8), (257, 4, 1, 8), (273, 4, 1 << 25, 0)))
    + bytes(4),
}


@pytest.mark.parametrize("extension", GREEDY)
def test_an_image_that_claims_a_header_of_gigabytes_is_broken_before_they_are_read(
    tmp_path: Path, extension: str
) -> None:
    with (tmp_path / "image").open("wb") as file:
        file.write(GREEDY[extension])
        file.truncate(1 << 28)  # a sparse file: the disk stores only the header
    with open_storage(tmp_path).open("image") as opened:
        region = FileRegion(opened, 0, opened.size_bytes)
        with pytest.raises(BrokenMedia, match="more than 64 MiB would have to be read"):
            extract_media(region, f"image.{extension}", HEADER)
    assert region.bytes_read < 1 << 26


def test_sound_is_measured(extract: Extract) -> None:
    expected = AVMetadata(audio_duration=0.5, audio_channels=2, audio_sample_rate=8000, audio_num_samples=4000)
    assert extract(sound(), "a.wav", EXTENSION) == expected
    assert extract(sound(), "a", HEADER) == expected


def test_without_pyav_sound_is_an_error_that_names_the_package(
    extract: Extract, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise ImportError("audio and video need the package av (PyAV): pip install 'energon-toolkit[av]'")

    monkeypatch.setattr(import_av, "import_av", missing)
    with pytest.raises(ConfigError, match=r"pip install 'energon-toolkit\[av\]'"):
        extract(sound(), "a.wav", EXTENSION)


def claims(width: int, height: int) -> bytes:
    """Build a PNG with a header that claims this size."""
    data = bytearray(image("PNG"))
    data[16:24] = struct.pack(">II", width, height)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"", "a.png"),
        (b"no image", "a.jpg"),
        (image("JPEG")[:60], "a.jpg"),
        (image("PNG")[:20], "a.png"),
        (image("WEBP")[:22], "a.webp"),
        (b"RIFF\0\0\0\0WEBPVP9 " + bytes(20), "a.webp"),
        (image("TIFF")[:6], "a.tiff"),
        (claims(1, 1), "a.png"),
        (claims(2**31 - 1, 2**31 - 1), "a.png"),
        (b"no video" * 10, "a.mp4"),
        (sound()[:20], "a.wav"),
    ],
    ids=["empty", "text", "jpeg", "png", "webp", "webp-kind", "tiff", "checksum", "bomb", "mp4", "wav"],
)
def test_a_damaged_file_is_broken_whatever_the_damage(extract: Extract, data: bytes, name: str) -> None:
    with pytest.raises(
        BrokenMedia,
        match=r"cannot be read|not an image in a format of Pillow|it is an? (empty file|text)",
    ):
        extract(data, name, EXTENSION)


TEXTS = {
    "empty": b"",
    "text": b"hello world, this is a text\n" * 50,
    "utf16": "hello world".encode("utf-16"),
    "bm": b"BMW is a make of cars" * 10,
    "json": b'{"a": 1}' * 20,
    "pdf": b"%PDF-1.7\n" + b"x" * 100,
    "zeros": bytes(2000),
    "npy": b"\x93NUMPY\x01\x00v\x00",
    "svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>',
    "zip": b"PK\x03\x04" + bytes(100),
}


@pytest.mark.parametrize("what", TEXTS)
def test_what_is_no_media_is_passed_over_by_its_header(extract: Extract, what: str) -> None:
    assert extract(TEXTS[what], "a.jpg", HEADER) is None


def test_what_a_pattern_asked_for_and_is_no_media_is_broken(extract: Extract) -> None:
    with pytest.raises(BrokenMedia, match="not an image, audio or video"):
        extract(b"hello world", "a.txt", EVERYTHING)


def test_a_region_reads_as_the_file_it_is_a_part_of(tmp_path: Path) -> None:
    data = bytes(range(256)) * 100
    (tmp_path / "file").write_bytes(data)
    inside = data[100:-100]
    with open_storage(tmp_path).open("file") as file, FileRegion(file, 100, len(inside)) as region:
        assert region.read() == inside
        assert region.read(1) == b""
        for start, size in ((5, 10), (5000, 9000), (4990, 30), (0, 1), (len(inside) - 3, 10), (len(inside) + 5, 3)):
            assert region.seek(start) == start
            assert region.read(size) == inside[start : start + size]
        assert region.seek(-4, io.SEEK_END) == len(inside) - 4
        assert region.read() == inside[-4:]
        with pytest.raises(ValueError, match="before the start"):
            region.seek(-1)
