from __future__ import annotations

import pytest

from loader.format.media.extraction import may_be_media
from loader.format.media.metadata import MediaFilter, media_type_of_header, media_type_of_name


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\0\0\0\x18ftypavif", "image"),
        (b"\0\0\0\x18ftypisom", "av"),
        (b"\0\0\0\x08wide", "av"),
        (b"\xff\xfb\x90\x64" + bytes(8), "av"),
        (b"\xff\xf1\x50\x80" + bytes(8), "av"),
        (b"ID3\x04\0", "av"),
        (b"\x1aE\xdf\xa3", "av"),
        (b"RIFF\0\0\0\0AVI LIST", "av"),
        (b"RIFF\0\0\0\0sfbk", None),
        (b"FORM\0\0\0\0AIFF", "av"),
        ((b"\x47" + bytes(187)) * 3, "av"),
    ],
)
def test_headers_tell_the_kind(head: bytes, kind: str | None) -> None:
    assert media_type_of_header(head) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.seg.png", "image"), ("a.JPG", "image"), ("a.opus", "av"), ("a.txt", None), ("jpg", None), (".jpg", None)],
)
def test_names_tell_the_kind(name: str, kind: str | None) -> None:
    assert media_type_of_name(name) == kind


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("*.jpg", "a/b.JPG", True),
        ("*.JPG", "a.jpg", True),
        ("a?.jpg", "ab.jpg", True),
        ("a.jpg", "sub/a.jpg", False),
        ("sub/*", "sub/x/y.png", True),
        ("*.{jpg,png}", "a.jpg", False),
    ],
)
def test_patterns_match_the_whole_name_in_any_case(pattern: str, name: str, matches: bool) -> None:
    assert may_be_media(name, MediaFilter(strategy="GLOB", patterns=(pattern,))) is matches
