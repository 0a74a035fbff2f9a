"""Damaged shards lead to a clear error with shard and byte offset, or to the right index."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import tarfile
import zipfile
from pathlib import Path

import pytest

from loader.errors import FormatError
from loader.format.index.shard_index import ShardIndex, index_shard
from loader.storage import LocalStorage
from tests.malformed.tar_bytes import BLOCK, END, GNU, V7, base256, header, member, padded, pax, record


def scan(folder: Path, data: bytes) -> ShardIndex:
    (folder / "s.tar").write_bytes(data)
    try:
        return index_shard(LocalStorage(folder), "s.tar")
    except FormatError as error:
        check_message(error, folder / "s.tar")
        raise


def check_message(error: FormatError, path: Path) -> None:
    assert error.shard == str(path)
    assert error.offset is not None
    assert 0 <= error.offset <= path.stat().st_size
    assert error.hint
    assert len(str(error)) < 1000


def contents(index: ShardIndex) -> list[tuple[str, list[tuple[str, int, int]]]]:
    found = []
    start = 0
    for key, end in zip(index.keys(), index.part_ends.tolist(), strict=True):
        names = [index.part_names[name] for name in index.part_name[start:end].tolist()]
        places = zip(names, index.part_offset[start:end].tolist(), index.part_size[start:end].tolist(), strict=True)
        found.append((key, list(places)))
        start = end
    return found


def whole(index: ShardIndex) -> tuple[object, ...]:
    return contents(index), index.sample_offsets.tolist(), index.warnings


PLAIN = member(b"a.txt", b"x" * 600) + member(b"a.json", b"{}") + member(b"b.txt", b"") + END
LONG_NAMES = (
    pax(record(b"mtime", b"1.5"))
    + member(b"a.txt", b"x")
    + pax(record(b"path", b"b.txt"), record(b"size", b"3"))
    + header(b"short", 0)
    + padded(b"abc")
    + member(b"././@LongLink", b"l" * 120 + b".txt\0", b"L", magic=GNU)
    + member(b"l" * 100, b"y", magic=GNU)
    + END
)


@pytest.mark.parametrize("archive", [PLAIN, LONG_NAMES], ids=["plain", "extension headers"])
def test_a_file_cut_anywhere_gives_an_error_or_a_warning_but_no_wrong_index(tmp_path: Path, archive: bytes) -> None:
    complete = scan(tmp_path, archive)
    assert not complete.warnings
    end = len(archive) - len(END)
    for length in range(len(archive)):
        if length < BLOCK or length % BLOCK in (0, 1, 2, 3, 5, 7, 88, 255, 511) or 124 <= length % BLOCK <= 160:
            try:
                index = scan(tmp_path, archive[:length])
            except FormatError:
                assert length != end
                assert length < end + BLOCK
                continue
            except BaseException as error:  # noqa: BLE001 - the message names the place
                pytest.fail(f"{length} bytes: {error!r}")
            if length >= end + BLOCK:
                assert whole(index) == whole(complete)
                continue
            # Cut between two members: the members before are indexed, with a warning.
            assert length % BLOCK == 0
            assert any("end-of-archive blocks are missing" in warning for warning in index.warnings)
            assert int(index.sample_offsets[-1]) == length
            assert contents(index) == expected_of_cut(contents(complete), length)


def expected_of_cut(samples: list[tuple[str, list[tuple[str, int, int]]]], length: int) -> list[object]:
    kept = [(key, [part for part in parts if part[1] + part[2] <= length]) for key, parts in samples]
    return [(key, parts) for key, parts in kept if parts]


@pytest.mark.parametrize("length", [1, 100, 511])
def test_half_an_end_block_is_a_cut_header(tmp_path: Path, length: int) -> None:
    with pytest.raises(FormatError, match="inside a tar header"):
        scan(tmp_path, PLAIN[: -len(END) + length])


def test_a_file_cut_in_the_padding_of_its_last_member_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="inside the padding after a member"):
        scan(tmp_path, member(b"a.txt", b"hello")[: BLOCK + 5])


def test_a_pax_header_without_its_member_is_damage(tmp_path: Path) -> None:
    alone = member(b"a.txt") + pax(record(b"mtime", b"1"))
    with pytest.raises(FormatError, match="inside a tar header"):
        scan(tmp_path, alone)
    with pytest.raises(FormatError, match="expected a tar header"):
        scan(tmp_path, alone + END)
    for data in (pax(record(b"path", b"b.txt")), member(b"x", b"b.txt\0", b"L")):
        with pytest.raises(FormatError):
            scan(tmp_path, data)
        with pytest.raises(FormatError):
            scan(tmp_path, data + END)


ONE_OF_EACH = {
    "USTAR": member(b"a.txt", b"hello"),
    "USTAR, bytes above 127": member("é/ü.txt".encode(), b"hello"),
    "prefix": member(b"a.txt", b"hello", prefix=b"folder"),
    "base-256": header(b"a.txt", base256(5)) + padded(b"hello"),
}


@pytest.mark.parametrize("first", ONE_OF_EACH.values(), ids=ONE_OF_EACH)
@pytest.mark.sampled(2)
def test_every_damaged_byte_of_a_header_is_noticed(tmp_path: Path, first: bytes) -> None:
    archive = first + member(b"z.txt", b"world") + END
    right = whole(scan(tmp_path, archive))
    values = random.Random(7)
    for place in range(BLOCK):
        for value in {archive[place] ^ 1, archive[place] ^ 0x80, 0, values.randrange(256)}:
            if value == archive[place]:
                continue
            damaged = archive[:place] + bytes([value]) + archive[place + 1 :]
            try:
                assert whole(scan(tmp_path, damaged)) == right, (place, value)
            except FormatError as error:
                assert error.offset == 0, (place, value)  # noqa: PT017 - some changes are harmless: a space for a zero
            else:
                assert 148 <= place < 156  # in the checksum field itself


def test_a_damaged_header_is_blamed_and_not_what_follows_from_it(tmp_path: Path) -> None:
    # With half the size, the scan continues inside the contents.
    good, bad = member(b"a.txt", b"x" * 600), bytearray(member(b"b.txt", b"y" * 2048))
    bad[124:136] = b"%011o\0" % 1024
    with pytest.raises(FormatError, match="checksum") as caught:
        scan(tmp_path, good + bytes(bad) + member(b"c.txt") + END)
    assert caught.value.offset == len(good)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("gzip", gzip.compress(PLAIN)),
        ("bzip2", bz2.compress(PLAIN)),
        ("xz", lzma.compress(PLAIN)),
        ("Zstandard", b"\x28\xb5\x2f\xfd" + bytes(range(256)) * 4),
        ("LZ4", b"\x04\x22\x4d\x18" + bytes(range(256)) * 4),
        ("gzip", gzip.compress(random.Random(1).randbytes(5000))),
        ("bzip2", bz2.compress(random.Random(1).randbytes(5000))),
    ],
)
def test_a_compressed_file_is_named_as_what_it_is_and_how_to_unpack_it(tmp_path: Path, kind: str, data: bytes) -> None:
    with pytest.raises(FormatError, match=f"this is a file compressed by {kind}, not a tar file") as caught:
        scan(tmp_path, data)
    assert str(tmp_path / "s.tar") in (caught.value.hint or "")


def test_a_zip_file_is_named_as_what_it_is(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "hello")
    with pytest.raises(FormatError, match="this is a zip archive"):
        scan(tmp_path, file.getvalue())


def test_a_name_that_starts_as_a_compressed_file_does_is_only_a_name(tmp_path: Path) -> None:
    for name in (b"BZh.txt", b"\x1f\x8b.txt", b"PK\x03\x04.txt"):
        assert scan(tmp_path, member(name) + END).part_names == ("txt",)


def test_an_empty_file_is_no_tar_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="the file is empty"):
        scan(tmp_path, b"")


def test_random_bytes_are_no_tar_file(tmp_path: Path) -> None:
    chance = random.Random(3)
    for length in (1, 511, 512, 513, 1024, 5000, 300_000):
        with pytest.raises(FormatError):
            scan(tmp_path, chance.randbytes(length))
        with pytest.raises(FormatError):
            scan(tmp_path, member() + chance.randbytes(length))


SIZES = {
    "0o17": b"0o17",
    "0x10": b"0x10",
    "underscore": b"1_0",
    "negative": b"-5",
    "plus": b"+5",
    "nine": b"00000000009\0",
    "letters": b"hello\0",
    "tab": b"\t5",
    "inner space": b"1 1",
    # Octal numbers of Python, which allows spaces around them.
    "0o17, spaces": b"0o17       \0",
    "underscore, spaces": b" 1_0       \0",
    "negative, spaces": b"-5         \0",
    "plus, spaces": b"         +5\0",
    "line feed": b"5\n         \0",
    "12 octal digits": b"7" * 12,
    "most octal digits": b"7" * 11,
    "base-256, negative": base256(-1),
    "base-256, very negative": base256(-(1 << 80)),
    "base-256, 2^62": base256(1 << 62),
    "base-256, 2^70": base256(1 << 70),
    "base-256, all ones": b"\xff" * 12,
    "unicode digits": "٣".encode(),
}


@pytest.mark.parametrize("stated", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("kind", [b"0", b"x", b"L", b"Z"])
def test_a_size_that_is_none_is_refused(tmp_path: Path, stated: bytes, kind: bytes) -> None:
    before = member(b"z.txt")
    for rest in (b"", padded(b"x" * 20) + END, member() * 8 + END):
        with pytest.raises(FormatError) as caught:
            scan(tmp_path, before + header(b"a.txt", stated, kind) + rest)
        assert caught.value.offset == len(before)


@pytest.mark.parametrize("stated", [b" 12 ", b"         12\0", b"12\0garbage", b"00000000012 ", base256(10)])
def test_a_size_may_be_written_in_all_the_ways_of_old_tars(tmp_path: Path, stated: bytes) -> None:
    archive = header(b"a.txt", stated) + padded(b"0123456789") + END
    assert contents(scan(tmp_path, archive)) == [("a", [("txt", 512, 10)])]
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert [info.size for info in tar] == [10]


def test_a_size_of_twelve_digits_is_refused_unless_it_is_zero(tmp_path: Path) -> None:
    # POSIX requires a NUL or a space after eleven; checking it in every header would cost 5 % of a scan.
    with pytest.raises(FormatError, match="expected the size of a file, found b'000000000012'"):
        scan(tmp_path, header(b"a.txt", b"000000000012") + padded(b"0123456789") + END)
    assert contents(scan(tmp_path, header(b"a.txt", b"0" * 12) + END)) == [("a", [("txt", 512, 0)])]


PAX_FAULTS = {
    "length too short": b"5 path=b.txt\n",
    "length too long": b"99 path=b.txt\n",
    "length beyond reason": b"9" * 19 + b" path=b.txt\n",
    "length of many digits": b"9" * 400 + b" path=b.txt\n",
    "length zero": b"0 path=b.txt\n",
    "length one": b"1 path=b.txt\n",
    "negative length": b"-14 path=b.txt\n",
    "no length": b" path=b.txt\n",
    "no newline": b"14 path=b.txtX",
    "no equals sign": b"7 path\n" + record(b"path", b"b.txt"),
    "no space": b"path=b.txt\n",
    "size -1": record(b"size", b"-1"),
    "size 1e3": record(b"size", b"1e3"),
    "size empty": record(b"size", b""),
    "size hexadecimal": record(b"size", b"0x10"),
    "size huge": record(b"size", b"9" * 19),
    "size of many digits": record(b"size", b"9" * 5000),
    "size past the end": record(b"size", b"100000"),
    "path with NUL": record(b"path", b"b.txt\0c"),
    "path empty": record(b"path", b""),
    "path of 10,000 bytes": record(b"path", b"p" * 10_000 + b".txt"),
    "GNU sparse 0.0": record(b"GNU.sparse.size", b"10"),
    "GNU sparse 1.0": record(b"GNU.sparse.major", b"1") + record(b"GNU.sparse.name", b"b.txt"),
}


@pytest.mark.parametrize("records", PAX_FAULTS.values(), ids=PAX_FAULTS)
def test_damaged_pax_records_are_refused(tmp_path: Path, records: bytes) -> None:
    before = member(b"z.txt")
    with pytest.raises(FormatError) as caught:
        scan(tmp_path, before + pax(records) + member(b"a.txt") + END)
    assert caught.value.offset is not None
    assert caught.value.offset >= len(before)


def test_a_pax_path_gives_the_member_its_key(tmp_path: Path) -> None:
    archive = member(b"a.jpg") + pax(record(b"path", b"b.txt"), record(b"comment", b"x")) + member(b"a.txt") + END
    assert [key for key, _ in contents(scan(tmp_path, archive))] == ["a", "b"]


def test_nothing_behind_a_nul_is_a_pax_record(tmp_path: Path) -> None:
    archive = pax(record(b"path", b"b.txt"), b"\0\0", record(b"path", b"c.txt")) + member(b"a.txt") + END
    assert [key for key, _ in contents(scan(tmp_path, archive))] == ["b"]


def test_pax_records_that_concern_neither_name_nor_size_are_not_judged(tmp_path: Path) -> None:
    archive = pax(b"99 mtime=garbage") + member(b"a.txt") + END
    assert contents(scan(tmp_path, archive)) == [("a", [("txt", 1536, 5)])]


def test_several_extension_headers_belong_to_the_member_behind_them(tmp_path: Path) -> None:
    harmless, naming = pax(record(b"mtime", b"1.5")), member(b"@", b"b.txt\0", b"L")
    path, size = pax(record(b"path", b"b.txt")), pax(record(b"size", b"5"))
    for headers in (harmless * 3, harmless + naming, naming + harmless, harmless + path, path + size, size + naming):
        index = scan(tmp_path, member(b"z.txt") + headers + member(b"own.txt") + END)
        assert index.keys() == ["z", "b" if b"b.txt" in headers else "own"]
        assert index.sample_offsets.tolist() == [0, 1024, 1024 + len(headers) + 1024]


LONG_LINKS = {
    "20 MB": header(b"@", 20_000_000, b"L"),
    "10,000 bytes": member(b"@", b"p" * 10_000, b"L"),
    "without contents": member(b"@", b"", b"L"),
    "empty": member(b"@", b"\0", b"L"),
    "cut": header(b"@", 600, b"L") + bytes(512),
    "nothing behind it": member(b"@", b"b.txt\0", b"L"),
}


@pytest.mark.parametrize("damage", LONG_LINKS)
def test_damaged_gnu_long_names_are_refused(tmp_path: Path, damage: str) -> None:
    before = member(b"z.txt")
    data = LONG_LINKS[damage] + bytes(20_000_256 if damage == "20 MB" else 0)
    rest = b"" if damage in ("cut", "nothing behind it") else member() + END
    with pytest.raises(FormatError) as caught:
        scan(tmp_path, before + data + rest)
    assert caught.value.offset is not None
    assert caught.value.offset >= len(before)


def test_a_long_link_target_changes_no_name(tmp_path: Path) -> None:
    archive = member(b"@", b"t" * 200 + b"\0", b"K", magic=GNU) + header(b"l.txt", 0, b"2") + member(b"a.txt") + END
    assert contents(scan(tmp_path, archive)) == [("a", [("txt", 2048, 5)])]


def test_a_global_header_may_comment_but_not_rename(tmp_path: Path) -> None:
    fine = pax(record(b"comment", b"hello"), kind=b"g")
    index = scan(tmp_path, fine + member(b"a.txt") + fine + member(b"b.txt") + END)
    assert contents(index) == [("a", [("txt", 1536, 5)]), ("b", [("txt", 3584, 5)])]
    assert index.sample_offsets.tolist() == [1024, 3072, 4096]
    for wrong in (record(b"path", b"x.txt"), record(b"size", b"5")):
        with pytest.raises(FormatError, match="global header") as caught:
            scan(tmp_path, member(b"z.txt") + pax(wrong, kind=b"g") + member(b"a.txt") + END)
        assert caught.value.offset == 1024


def test_a_global_header_between_a_member_and_its_own_header_is_skipped(tmp_path: Path) -> None:
    inner = pax(record(b"comment", b"hello"), kind=b"g")
    archive = pax(record(b"path", b"b.txt")) + inner + member(b"a.txt") + END
    assert contents(scan(tmp_path, archive)) == [("b", [("txt", 2560, 5)])]


def test_a_sparse_member_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="sparse") as caught:
        scan(tmp_path, member(b"z.txt") + member(b"a.txt", b"x", b"S", magic=GNU) + END)
    assert caught.value.offset == 1024
    assert "--sparse" in (caught.value.hint or "")


def test_what_lies_behind_the_first_empty_block_is_not_read_but_mentioned(tmp_path: Path) -> None:
    first, second = member(b"a.txt"), member(b"b.txt") + END
    for gap in (1, 2, 5, 19):
        index = scan(tmp_path, first + bytes(gap * BLOCK) + second)
        assert index.keys() == ["a"]
        assert index.sample_offsets.tolist() == [0, len(first)]
        assert [f"from byte {len(first) + gap * BLOCK} on" in warning for warning in index.warnings] == [True]


def test_garbage_behind_the_end_is_mentioned_and_empty_blocks_are_not(tmp_path: Path) -> None:
    assert [
        f"from byte {1024 + 1024 + 3} on" in warning
        for warning in scan(tmp_path, member(b"a.txt") + END + b"\0\0\0garbage").warnings
    ] == [True]
    assert not scan(tmp_path, member(b"a.txt") + bytes(10_240)).warnings
    assert not scan(tmp_path, member(b"a.txt") + bytes(512)).warnings


def test_an_archive_of_nothing_has_no_samples_and_a_warning(tmp_path: Path) -> None:
    index = scan(tmp_path, END)
    assert len(index) == 0
    assert index.sample_offsets.tolist() == [0]
    assert index.warnings == ("the tar file has no members",)


@pytest.mark.parametrize("kind", [b"Z", b"V", b"M", b"D", b"A"])
def test_members_of_unknown_types_are_stepped_over(tmp_path: Path, kind: bytes) -> None:
    archive = member(b"a.txt") + member(b"a.jpg", b"x" * 600, kind) + member(b"b.txt") + END
    assert contents(scan(tmp_path, archive)) == [("a", [("txt", 512, 5)]), ("b", [("txt", 3072, 5)])]


@pytest.mark.parametrize("kind", [b"1", b"2", b"3", b"4", b"5", b"6"])
def test_links_devices_and_folders_have_no_contents_whatever_their_size_says(tmp_path: Path, kind: bytes) -> None:
    archive = member(b"a.txt") + header(b"a.jpg", 600, kind) + member(b"b.txt") + END
    assert contents(scan(tmp_path, archive)) == [("a", [("txt", 512, 5)]), ("b", [("txt", 2048, 5)])]


@pytest.mark.parametrize("kind", [b"0", b"\0", b"7"])
def test_all_three_types_of_regular_files_are_parts(tmp_path: Path, kind: bytes) -> None:
    archive = member(b"a.txt", b"hello", kind, magic=V7) + END
    assert contents(scan(tmp_path, archive)) == [("a", [("txt", 512, 5)])]


def test_checksums_may_be_sums_of_signed_bytes(tmp_path: Path) -> None:
    plain = header("é.txt".encode(), 5)
    signed = sum(byte - 256 * (byte > 127) for byte in plain[:148] + b" " * 8 + plain[156:])
    archive = header("é.txt".encode(), 5, checksum=signed) + padded(b"hello") + END
    assert contents(scan(tmp_path, archive)) == [("é", [("txt", 512, 5)])]
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert tar.getnames() == ["é.txt"]


@pytest.mark.parametrize("layout", [b"%07o\0", b"%6o\0 ", b"%06o \0", b"  %o\0"])
def test_checksums_may_be_written_in_all_the_ways_of_old_tars(tmp_path: Path, layout: bytes) -> None:
    plain = header(b"a.txt", 5)
    total = sum(plain[:148] + b" " * 8 + plain[156:])
    archive = header(b"a.txt", 5, checksum=(layout % total)[:8]) + padded(b"hello") + END
    assert contents(scan(tmp_path, archive)) == [("a", [("txt", 512, 5)])]


@pytest.mark.parametrize("stored", [b"garbage!", b"\xff" * 8, b"9" * 8, bytes(8), b" " * 8, b"-000001"])
def test_a_checksum_that_is_no_number_is_refused(tmp_path: Path, stored: bytes) -> None:
    with pytest.raises(FormatError, match="checksum"):
        scan(tmp_path, header(b"a.txt", checksum=stored) + END)


@pytest.mark.parametrize(
    "name", [b"/etc/passwd.txt", b"../../x.txt", b"..//x.txt", b"C:\\x.txt", b"a\nb.txt", b"\x1b[2J.txt"]
)
def test_a_name_is_only_a_name(tmp_path: Path, name: bytes) -> None:
    assert scan(tmp_path, member(name) + END).keys() == [name[:-4].decode()]


def test_a_name_of_100_bytes_needs_no_nul(tmp_path: Path) -> None:
    name = b"n" * 96 + b".txt"
    assert scan(tmp_path, member(name) + END).keys() == ["n" * 96]
    assert scan(tmp_path, member(name, prefix=b"p" * 155) + END).keys() == ["p" * 155 + "/" + "n" * 96]


def test_a_name_ends_at_its_first_nul(tmp_path: Path) -> None:
    archive = member(b"a.txt\0garbage.jpg") + member(b"b.txt\0.x") + END
    assert contents(scan(tmp_path, archive)) == [("a", [("txt", 512, 5)]), ("b", [("txt", 1536, 5)])]
    long = member(b"@", b"c.txt\0garbage", b"L") + member(b"x") + END
    assert scan(tmp_path, long).keys() == ["c"]


@pytest.mark.parametrize("magic", [GNU, V7])
def test_only_posix_headers_have_a_prefix(tmp_path: Path, magic: bytes) -> None:
    # GNU tar stores times in these bytes.
    assert scan(tmp_path, member(b"a.txt", magic=magic, prefix=b"14000000000") + END).keys() == ["a"]


def test_a_regular_member_named_as_a_folder_is_no_part(tmp_path: Path) -> None:
    assert len(scan(tmp_path, member(b"d.x/") + member(b"d.y/", kind=b"\0", magic=V7) + END)) == 0


def test_a_pax_size_goes_before_the_header_s(tmp_path: Path) -> None:
    archive = pax(record(b"size", b"700")) + header(b"a.txt", 0) + padded(b"x" * 700) + member(b"b.txt") + END
    assert contents(scan(tmp_path, archive)) == [("a", [("txt", 1536, 700)]), ("b", [("txt", 3072, 5)])]


def test_a_million_bytes_of_names_need_no_gigabytes(tmp_path: Path) -> None:
    # Arrays of names are as wide as the longest name, so one of 8,000 bytes among thousands must fit.
    name = pax(record(b"path", b"p" * 8000 + b".txt"))
    index = scan(tmp_path, member(b"a.txt", b"") * 3000 + name + member(b"x", b"") + END)
    assert index.keys()[1] == "p" * 8000


def test_a_member_of_nine_gigabytes_is_stepped_over_without_reading_it(tmp_path: Path) -> None:
    size = 9 << 30
    with (tmp_path / "s.tar").open("wb") as file:
        file.write(header(b"a.bin", base256(size)))
        file.truncate(BLOCK + size)  # a hole, which takes no space on the disk
        file.seek(0, 2)
        file.write(member(b"b.txt") + END)
    index = index_shard(LocalStorage(tmp_path), "s.tar")
    assert contents(index) == [("a", [("bin", 512, size)]), ("b", [("txt", 512 + size + 512, 5)])]


def extension(kind: bytes, size_bytes: int) -> bytes:
    header = tarfile.TarInfo("extension")
    header.type, header.size = kind, size_bytes
    return header.tobuf() + b"17 k0000000=val\n"[:1] * size_bytes + bytes(-size_bytes % 512)


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_an_extension_header_of_more_than_a_mebibyte_is_refused(tmp_path: Path, kind: bytes) -> None:
    member = tarfile.TarInfo("a.txt")
    (tmp_path / "s.tar").write_bytes(extension(kind, (1 << 20) + 1) + member.tobuf() + bytes(1024))
    with pytest.raises(FormatError, match="an extension header has 1,048,577 bytes, more than the limit of 1,048,576"):
        index_shard(LocalStorage(str(tmp_path)), "s.tar")
