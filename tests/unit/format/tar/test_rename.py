"""Renamed headers, as Python's tarfile reads them."""

from __future__ import annotations

import io
import tarfile
from typing import Literal

import pytest

from loader.errors import FormatError
from loader.prepare.fix_duplicates import rename_headers

FORMATS: dict[str, Literal[0, 1, 2]] = {
    "ustar": tarfile.USTAR_FORMAT,
    "gnu": tarfile.GNU_FORMAT,
    "pax": tarfile.PAX_FORMAT,
}


def headers_of(name: str, kind: str, **pax_headers: str) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode, info.uname = 3, 1234567890, 0o640, "owner"
    info.pax_headers = pax_headers
    return info.tobuf(FORMATS[kind], "utf-8", "surrogateescape")


def renamed(headers: bytes, name: str) -> tarfile.TarInfo:
    changed = rename_headers(headers, name.encode("utf-8", "surrogateescape"), shard="s.tar", offset=0)
    assert len(changed) % 512 == 0
    archive = changed + b"abc".ljust(512, b"\0") + bytes(1024)
    with tarfile.open(fileobj=io.BytesIO(archive), encoding="utf-8", errors="surrogateescape") as tar:
        (member,) = tar.getmembers()
        contents = tar.extractfile(member)
        assert contents is not None
        assert contents.read() == b"abc"
        return member


NAMES = {
    "short": "a/b.txt",
    "100 bytes": "x" * 96 + ".txt",
    "101 bytes": "x" * 97 + ".txt",
    "long in folders": "/".join(["folder"] * 20) + "/b.txt",
    "longer than POSIX allows": "/".join(["folder"] * 60) + "/b.txt",
    "a long last component": "f/" + "x" * 120 + ".txt",
    "a folder of 155 bytes": "f" * 155 + "/" + "x" * 96 + ".txt",
    "a folder of 156 bytes": "f" * 156 + "/" + "x" * 96 + ".txt",
    "unicode": "日本/é.txt",
    "long unicode": "é" * 80 + ".txt",
    "no UTF-8": "\udcff\udc80.txt",
}


@pytest.mark.parametrize("old", ["o.txt", "o" * 150 + ".txt", "é" * 90 + ".txt"], ids=["short", "long", "long unicode"])
@pytest.mark.parametrize("new", NAMES)
@pytest.mark.parametrize("kind", FORMATS)
def test_any_name_becomes_any_other_and_the_rest_stays(kind: str, old: str, new: str) -> None:
    if kind == "ustar" and len(old) > 10:
        old = "folder/" * 15 + "o.txt"
    member = renamed(headers_of(old, kind), NAMES[new])
    assert member.name == NAMES[new]
    assert (member.size, member.mtime, member.mode, member.uname) == (3, 1234567890, 0o640, "owner")


def test_a_name_that_fits_costs_no_more_blocks() -> None:
    assert len(rename_headers(headers_of("a.txt", "ustar"), b"b" * 100, shard="s", offset=0)) == 512
    assert len(rename_headers(headers_of("a.txt", "gnu"), b"b" * 100, shard="s", offset=0)) == 512


def test_a_long_name_that_becomes_short_loses_its_extension_header() -> None:
    assert len(rename_headers(headers_of("a" * 150, "gnu"), b"b", shard="s", offset=0)) == 512


def test_a_posix_prefix_of_the_old_name_does_not_stay() -> None:
    assert renamed(headers_of("folder/" * 15 + "o.txt", "ustar"), "n.txt").name == "n.txt"


def test_other_pax_records_stay_and_the_name_is_recorded_once() -> None:
    headers = headers_of("é" * 60 + ".txt", "pax", comment="keep me", mtime="1234567890.5")
    changed = rename_headers(headers, ("n" * 120).encode(), shard="s", offset=0)
    assert changed.count(b"path=") == 1
    member = renamed(headers, "n" * 120)
    assert member.pax_headers == {"path": "n" * 120, "comment": "keep me", "mtime": "1234567890.5"}


def test_pax_records_without_a_name_get_one_only_if_it_is_needed() -> None:
    headers = headers_of("a.txt", "pax", comment="c")
    assert b"path=" not in rename_headers(headers, b"b.txt", shard="s", offset=0)
    assert renamed(headers, "b" * 120).pax_headers == {"comment": "c", "path": "b" * 120}


@pytest.mark.parametrize("length", range(80, 125))
def test_the_length_of_a_pax_record_counts_its_own_digits(length: int) -> None:
    # Around 99 and 100 bytes the number gets a digit more.
    assert renamed(headers_of("é.txt", "pax"), "é" + "n" * length).name == "é" + "n" * length
    assert renamed(headers_of("é" * 60, "pax"), "n" * length).name == "n" * length


def test_a_gnu_long_link_name_stays() -> None:
    info = tarfile.TarInfo("a.txt")
    info.linkname = "l" * 150
    info.type = tarfile.SYMTYPE
    changed = rename_headers(info.tobuf(tarfile.GNU_FORMAT), b"n" * 150, shard="s", offset=0)
    with tarfile.open(fileobj=io.BytesIO(changed + bytes(1024))) as tar:
        (member,) = tar.getmembers()
    assert (member.name, member.linkname) == ("n" * 150, "l" * 150)


def test_extension_headers_of_other_kinds_stay_in_their_order() -> None:
    info = tarfile.TarInfo("a.txt")
    info.linkname = "l" * 150
    long_link = info.tobuf(tarfile.GNU_FORMAT)[:1024]
    pax, own = headers_of("a.txt", "pax", comment="c")[:1024], headers_of("a.txt", "ustar")
    for headers in (pax + long_link + own, long_link + pax + own):
        changed = rename_headers(headers, b"n" * 150, shard="s", offset=0)
        assert len(changed) == len(headers)
        assert [changed[156], changed[1024 + 156]] == [headers[156], headers[1024 + 156]]
        assert b"path=" + b"n" * 150 in changed
        assert b"comment=c" in changed


def test_a_name_in_a_pax_record_stays_there_before_a_gnu_header_too() -> None:
    pax, own = headers_of("é", "pax", comment="c")[:1024], headers_of("a.txt", "gnu")
    member = renamed(pax + own, "n" * 150)
    assert member.pax_headers == {"comment": "c", "path": "n" * 150}


def test_two_pax_headers_with_a_name_become_one() -> None:
    pax, own = headers_of("é", "pax")[:1024], headers_of("a.txt", "ustar")
    changed = rename_headers(pax + pax + own, b"b.txt", shard="s", offset=0)
    assert len(changed) == 1024 + 512
    assert changed.count(b"path=b.txt") == 1


def test_a_header_of_the_old_unix_tar_gets_a_gnu_long_name() -> None:
    headers = bytearray(headers_of("a.txt", "ustar"))
    headers[257:265] = bytes(8)
    headers[148:156] = b" " * 8
    headers[148:156] = b"%06o\0 " % sum(headers)
    assert renamed(bytes(headers), "b.txt").name == "b.txt"
    assert renamed(bytes(headers), "n" * 150).name == "n" * 150


def test_a_damaged_extension_header_is_named() -> None:
    headers = bytearray(headers_of("é.txt", "pax"))
    headers[512:516] = b"junk"
    with pytest.raises(FormatError, match="PAX record") as caught:
        rename_headers(bytes(headers), b"b", shard="s.tar", offset=1024)
    assert caught.value.offset == 1024 + 512
    headers[10] ^= 255
    with pytest.raises(FormatError, match="checksum"):
        rename_headers(bytes(headers), b"b", shard="s.tar", offset=0)
