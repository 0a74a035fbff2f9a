"""The scan of any archive that ``tarfile`` writes finds what ``tarfile`` lists, under the rules of names."""

from __future__ import annotations

import io
import tarfile
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from loader.format.index import shard_index as shard_index_module
from loader.format.index.key_hash import hash_key
from loader.format.index.shard_index import ShardIndex, decode_shard_index, encode_shard_index, index_shard
from loader.format.tar import scan as tar_scan_module
from loader.format.tar.header import BLOCK, headers_are_plain
from loader.format.tar.names import encode_name, split_member_name
from loader.storage import LocalStorage

FOLDERS = ["", "", "", "d/", "./", "../", "/", "__x__/", "__/", "____/", "a.b/", "d//", "l" * 90 + "/", "m" * 150 + "/"]
STEMS = [
    "a",
    "a",
    "b",
    "b",
    "ab",
    "aaaaaaaa",
    "aaaaaaab",
    "__x__",
    "__x",
    "a b",
    "é",
    "\udcff",
    "x" * 95,
    "y" * 300,
    "",
]
EXTENSIONS = [".txt", ".txt", ".jpg", ".seg.png", ".JPG", ".", "..txt", ".é", ".\udcfe", "", ".x.tar/y.z"]
TYPES = [tarfile.REGTYPE] * 6 + [
    tarfile.AREGTYPE,
    tarfile.CONTTYPE,
    tarfile.DIRTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.FIFOTYPE,
    b"Z",
]
WITH_CONTENTS = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE, b"Z")
HEADER_LIKE = tarfile.TarInfo("evil.txt").tobuf()
RECORDS = [{}, {}, {"comment": "path=evil.txt"}, {"SCHILY.xattr.user.x": "size=7"}, {"atime": "1.5"}]

# No name ends in a slash: tarfile drops it from names in PAX records, and only from those; and takes an old member with
# such a name for a folder, without its contents.
names = (
    st.builds("".join, st.tuples(*map(st.sampled_from, (FOLDERS, STEMS, EXTENSIONS))))
    | st.text(st.sampled_from("ab./_é\udcff"), min_size=1, max_size=12)
).filter(lambda name: not name.endswith("/"))
contents = st.sampled_from([0, 0, 1, 511, 512, 513, 1024, 1500]).map(lambda size: (HEADER_LIKE * 3)[:size])


@dataclass(frozen=True, kw_only=True)
class Member:
    name: str
    type: bytes
    data: bytes
    mtime: float
    records: dict[str, str]


members = st.builds(
    Member,
    name=names,
    type=st.sampled_from(TYPES),
    data=contents,
    mtime=st.sampled_from([0, 0, 0, 1.5]),
    records=st.sampled_from(RECORDS),
)


@dataclass(frozen=True, kw_only=True)
class Boundaries:
    wide_window: int
    narrow_window: int
    near_end: int
    batch_rows: int
    split_bytes: int

    def in_force(self) -> ExitStack:
        stack = ExitStack()
        for module, constant, value in (
            (tar_scan_module, "_WIDE_WINDOW", self.wide_window),
            (tar_scan_module, "_NARROW_WINDOW", self.narrow_window),
            (tar_scan_module, "_NEAR_END", self.near_end),
            (tar_scan_module, "_BATCH_ROWS", self.batch_rows),
            (shard_index_module, "_MAX_SPLIT_BYTES", self.split_bytes),
        ):
            stack.enter_context(mock.patch.object(module, constant, value))
        return stack


boundaries = st.builds(
    Boundaries,
    wide_window=st.sampled_from([512, 1024, 2048, 5120, 262144]),
    narrow_window=st.sampled_from([512, 1024, 4096]),
    near_end=st.sampled_from([0, 0, 1024, 16384]),
    batch_rows=st.sampled_from([1, 2, 3, 16384]),
    split_bytes=st.sampled_from([1, 200, 1000, 4194304]),
)


def write_archive(path: Path, some: list[Member], tar_format: int, comment: str | None) -> None:
    # tarfile cannot read an archive that has only a global header.
    headers = {"comment": comment} if some and comment and tar_format == tarfile.PAX_FORMAT else None
    with tarfile.open(
        path, "w", format=tar_format, encoding="utf-8", errors="surrogateescape", pax_headers=headers
    ) as tar:
        for member in some:
            info = tarfile.TarInfo(member.name)
            info.type, info.mtime, info.pax_headers = member.type, member.mtime, dict(member.records)
            if tar_format != tarfile.PAX_FORMAT:
                info.mtime = int(member.mtime)
            if member.type in WITH_CONTENTS:
                info.size = len(member.data)
            if member.type in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                info.linkname = member.name * 2
            try:
                tar.addfile(info, io.BytesIO(member.data) if info.size else None)
            except ValueError:
                assert tar_format == tarfile.USTAR_FORMAT  # the name does not fit


Samples = dict[str, tuple[int, list[tuple[str, int, int]]]]


def listing(path: Path) -> tuple[Samples, int, int]:
    """Return key → (offset of the first header, parts), the end of the archive, and the number of scattered keys."""
    samples: Samples = {}
    scattered = set()
    previous = None
    with tarfile.open(path, "r:", encoding="utf-8", errors="surrogateescape") as tar:
        for member in tar:
            split = split_member_name(member.name) if member.isreg() else None
            if split is None:
                continue
            key, part = split
            if key in samples and key != previous:
                scattered.add(key)
            previous = key
            samples.setdefault(key, (member.offset, []))[1].append((part, member.offset_data, member.size))
        return samples, tar.offset, len(scattered)


def described(index: ShardIndex) -> Samples:
    samples: Samples = {}
    start = 0
    for number, (key, end) in enumerate(zip(index.keys(), index.part_ends.tolist(), strict=True)):
        assert key not in samples
        rows = slice(start, end)
        parts = [
            (index.part_names[name], offset, size)
            for name, offset, size in zip(
                index.part_name[rows].tolist(),
                index.part_offset[rows].tolist(),
                index.part_size[rows].tolist(),
                strict=True,
            )
        ]
        samples[key] = (int(index.sample_offsets[number]), parts)
        start = end
    assert start == len(index.part_name)
    return samples


@settings(max_examples=120)
@given(
    some=st.lists(members, max_size=12),
    tar_format=st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    comment=st.sampled_from([None, "made by a test"]),
    sizes=boundaries,
)
def test_a_scan_equals_the_list_of_tarfile(
    tmp_path: Path, some: list[Member], tar_format: int, comment: str | None, sizes: Boundaries
) -> None:
    path = tmp_path / "s.tar"
    write_archive(path, some, tar_format, comment)
    with sizes.in_force():
        index = index_shard(LocalStorage(tmp_path), "s.tar")
    samples, end, scattered = listing(path)
    found = described(index)
    assert found == samples
    assert list(found) == list(samples)
    assert int(index.sample_offsets[-1]) == end
    assert index.scattered == scattered
    assert list(index.part_names) == sorted(
        {part for _, parts in samples.values() for part, _, _ in parts}, key=encode_name
    )
    hashes = [hash_key(encode_name(key)) for key in samples]
    assert index.key_hash.tolist() == sorted(hashes)
    assert [hashes[sample] for sample in index.key_order.tolist()] == index.key_hash.tolist()
    assert not [warning for warning in index.warnings if "dot" not in warning and "no members" not in warning]


EVERY_KIND = [
    Member(name="a.txt", type=tarfile.REGTYPE, data=b"x" * 600, mtime=1.5, records={}),
    Member(name="a.jpg", type=tarfile.REGTYPE, data=b"", mtime=1.5, records={"comment": "c" * 600}),
    Member(name="d", type=tarfile.DIRTYPE, data=b"", mtime=1.5, records={}),
    Member(name="é" * 80 + ".txt", type=tarfile.REGTYPE, data=b"y", mtime=0, records={}),
    Member(name="b.txt", type=tarfile.REGTYPE, data=b"z" * 3000, mtime=0, records={}),
    Member(name="l.txt", type=tarfile.SYMTYPE, data=b"", mtime=1.5, records={}),
    Member(name="c.txt", type=tarfile.REGTYPE, data=b"", mtime=1.5, records={}),
    Member(name="a.png", type=tarfile.REGTYPE, data=b"", mtime=1.5, records={}),
]


@pytest.mark.parametrize("tar_format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.sampled(2)
def test_no_boundary_of_a_window_or_batch_changes_a_scan(tmp_path: Path, tar_format: int) -> None:
    write_archive(tmp_path / "s.tar", EVERY_KIND, tar_format, "made by a test")
    samples, end, _ = listing(tmp_path / "s.tar")
    assert len(samples) == 4
    for wide, narrow, rows in product(range(512, 4097, 512), (512, 1024, 4096), range(1, 9)):
        with Boundaries(
            wide_window=wide, near_end=0, narrow_window=narrow, batch_rows=rows, split_bytes=1000
        ).in_force():
            index = index_shard(LocalStorage(tmp_path), "s.tar")
        assert (described(index), int(index.sample_offsets[-1])) == (samples, end), (wide, narrow, rows)


@settings(max_examples=25)
@given(some=st.lists(members, max_size=6))
def test_the_index_of_a_shard_survives_the_journal(tmp_path: Path, some: list[Member]) -> None:
    write_archive(tmp_path / "s.tar", some, tarfile.GNU_FORMAT, None)
    index = index_shard(LocalStorage(tmp_path), "s.tar")
    again = decode_shard_index(encode_shard_index(index), name="s.tar")
    for name in ShardIndex.__dataclass_fields__.keys() - {"is_complete"}:  # which is not saved
        assert np.array_equal(getattr(again, name), getattr(index, name)), name


@given(seed=st.integers(0, 2**32 - 1), high=st.sampled_from([1, 2, 128, 256]), error=st.sampled_from([0, 0, 1, -1, 8]))
def test_the_sum_of_the_bytes_of_any_header_is_checked(seed: int, high: int, error: int) -> None:
    headers = np.random.default_rng(seed).integers(256 - high, 256, (3, BLOCK)).astype(np.uint8)
    headers[:, 124:136] = np.frombuffer(b"00000000144\0", np.uint8)
    headers[:, 148:156] = ord(" ")
    for header in headers:
        text = f"{sum(header.tobytes()) + error:06o}"
        header[148:156] = np.frombuffer(f"{text}\0 ".encode(), np.uint8)
    assert headers_are_plain(headers).tolist() == [error == 0] * 3
