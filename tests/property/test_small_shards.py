"""Small shards that are indexed together get the index that each would get alone, damaged ones too."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings, strategies as st

from loader.errors import FormatError
from loader.format.index.shard_index import ShardIndex, index_shard
from loader.format.index.small_shards import MAX_SMALL_BYTES, index_small_shards
from loader.storage import LocalStorage

names = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "", "", "d/", "./", "__x__/", "l" * 120 + "/"]),
        st.sampled_from(["a", "b", "c", "ab", "aaaaaaaa", "é", "\udcff"]),
        st.sampled_from([".txt", ".txt", ".jpg", ".seg.png", ""]),
    ),
)
shards = st.tuples(
    st.lists(st.tuples(names, st.sampled_from([0, 1, 511, 512, 600])), max_size=5),
    st.sampled_from([tarfile.USTAR_FORMAT, tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    # Bytes to keep, and (offset, byte) of a change.
    st.sampled_from([None, None, None, 0, 100, 512, 1024, 1100, 1536]),
    st.sampled_from([None, None, None, (0, 46), (130, 57), (140, 7), (156, 50), (1500, 1), (9000, 1)]),
)


def archive(members: list[tuple[str, int]], tar_format: int, size: int | None, change: tuple[int, int] | None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tar_format, errors="surrogateescape") as tar:
        for name, size_bytes in members:
            info = tarfile.TarInfo(name)
            info.size = size_bytes
            tar.addfile(info, io.BytesIO(b"x" * size_bytes))
    data = bytearray(buffer.getvalue()[:size])
    if change and change[0] < len(data):
        data[change[0]] = change[1]
    return bytes(data)


def assert_equal(index: ShardIndex, expected: ShardIndex) -> None:
    for name in ShardIndex.__dataclass_fields__:
        found, wanted = getattr(index, name), getattr(expected, name)
        assert np.array_equal(found, wanted), name
        assert getattr(found, "dtype", None) == getattr(wanted, "dtype", None), name


@settings(max_examples=150)
@given(some=st.lists(shards, min_size=1, max_size=6))
def test_shards_indexed_together_get_their_own_index(tmp_path: Path, some: list[tuple]) -> None:  # type: ignore[type-arg]
    storage = LocalStorage(tmp_path)
    for number, shard in enumerate(some):
        (tmp_path / f"{number}.tar").write_bytes(archive(*shard))
    for number, index in enumerate(index_small_shards(storage, [storage.stat(f"{n}.tar") for n in range(len(some))])):
        try:
            expected = index_shard(storage, f"{number}.tar")
        except FormatError:
            assert index is None
        else:
            if index is not None:
                assert_equal(index, expected)


def test_plain_shards_are_indexed_together_next_to_others(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    plain = archive([("a.jpg", 3), ("a.txt", 600), ("b.jpg", 0)], tarfile.USTAR_FORMAT, None, None)
    contents = {
        "plain.tar": plain,
        "gnu.tar": archive([("c.txt", 1)], tarfile.GNU_FORMAT, None, None),
        "damaged.tar": plain[:300] + b"\xff" + plain[301:],
        "cut.tar": plain[:1000],
        "without_end.tar": plain[: 512 * 6],
        "twice.tar": archive([("a.txt", 1), ("b.txt", 1), ("a.jpg", 1)], tarfile.USTAR_FORMAT, None, None),
        "hidden.tar": archive([("a.txt", 1), (".b.txt", 1)], tarfile.USTAR_FORMAT, None, None),
        "large.tar": archive([("a.txt", MAX_SMALL_BYTES)], tarfile.USTAR_FORMAT, None, None),
        "empty.tar": b"",
        "last.tar": plain,
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    indexes = index_small_shards(storage, [storage.stat(name) for name in contents])
    together = [name for name, index in zip(contents, indexes, strict=True) if index is not None]
    assert together == ["plain.tar", "gnu.tar", "last.tar"]
    for name, index in zip(contents, indexes, strict=True):
        if index is not None:
            assert_equal(index, index_shard(storage, name))


def test_a_shard_that_vanishes_is_left_to_the_scan_that_reports_it(tmp_path: Path) -> None:
    (tmp_path / "s.tar").write_bytes(archive([("a.txt", 1)], tarfile.USTAR_FORMAT, None, None))
    storage = LocalStorage(tmp_path)
    shard = storage.stat("s.tar")
    (tmp_path / "s.tar").unlink()
    assert index_small_shards(storage, [shard]) == [None]
