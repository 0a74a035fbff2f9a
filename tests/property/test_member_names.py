"""Vectorised splitting and hashing of names equals that of each name alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from loader.format.index.key_hash import hash_key, hash_keys
from loader.format.tar.names import decode_name, encode_name, split_member_name, split_member_names

pieces = st.sampled_from(
    [b"a", b"b", b".", b".", b"/", b"_", b"__", b"__x__/", b"\xff", b" ", "é".encode(), b"long" * 9]
)
names = st.lists(pieces, max_size=9).map(b"".join) | st.binary(max_size=20).map(lambda name: name.replace(b"\0", b""))


def split_one(name: bytes) -> tuple[bytes, bytes] | None:
    split = split_member_name(decode_name(name))
    return None if split is None else (encode_name(split[0]), encode_name(split[1]))


@settings(max_examples=100)
@given(st.lists(names, max_size=8), st.integers(0, 9))
def test_names_split_together_as_they_do_alone(some: list[bytes], padding: int) -> None:
    width = max([1, *map(len, some)]) + padding
    split = split_member_names(np.array(some, dtype=f"S{width}"))
    assert split.keys.shape[1] % 8 == 0
    found = dict.fromkeys(range(len(some)))
    for row, key, length, part in zip(split.taken, split.keys, split.key_lengths, split.part_names, strict=True):
        assert not key[length:].any()
        found[int(row)] = (key[:length].tobytes(), part)
    assert list(found.values()) == [split_one(name) for name in some]


def is_hidden(name: bytes) -> bool:
    folder, slash, last = name.rpartition(b"/")
    # Members of a folder for metadata are not counted.
    return last.startswith(b".") and split_one(folder + slash + b"a.b") is not None


@given(st.lists(names, max_size=8))
def test_members_that_start_with_a_dot_are_counted(some: list[bytes]) -> None:
    split = split_member_names(np.array(some, dtype="S400"))
    assert split.hidden == sum(map(is_hidden, some))
    # As megatron-energon 7.4.1 does: it splits at the first dot of the whole name, if folders have none.
    assert split.misread == sum(
        is_hidden(name) and b"/" in name and b"." not in name.rpartition(b"/")[0] for name in some
    )


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("a/b.seg.png", ("a/b", "seg.png")),
        ("a.b/c.d.txt", ("a.b/c", "d.txt")),
        ("./c.txt", ("./c", "txt")),
        ("../e.txt", ("../e", "txt")),
        ("/f.txt", ("/f", "txt")),
        ("a//b.txt", ("a//b", "txt")),
        ("g..txt", ("g", ".txt")),
        ("h.", ("h", "")),
        (" .txt", (" ", "txt")),
        ("A.JPG", ("A", "JPG")),
        ("__x__.json", ("__x__", "json")),
        ("__/a.json", ("__/a", "json")),
        ("./__x__/a.json", ("./__x__/a", "json")),
        ("d/__z__/b.txt", ("d/__z__/b", "txt")),
        ("nodot", None),
        ("d.e/nodot", None),
        (".hid", None),
        (".a.txt", None),
        ("./.c.txt", None),
        ("__x__/a.b.json", None),
        ("____/a.json", None),
        ("", None),
        ("/", None),
    ],
)
def test_names_split_as_other_readers_of_the_format_split_them(name: str, split: tuple[str, str] | None) -> None:
    assert split_member_name(name) == split
    assert split_one(name.encode()) == (None if split is None else (split[0].encode(), split[1].encode()))


@given(st.binary(max_size=40))
def test_any_bytes_survive_as_text(name: bytes) -> None:
    assert encode_name(decode_name(name)) == name


def hash_by_hand(key: bytes) -> int:
    mask = (1 << 64) - 1

    def mix(x: int) -> int:
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        return x ^ (x >> 31)

    value = mix((len(key) + 0x9E3779B97F4A7C15) & mask)
    for start in range(0, len(key), 8):
        word = int.from_bytes(key[start : start + 8].ljust(8, b"\0"), "little")
        value = mix(((value ^ word) + 0x9E3779B97F4A7C15) & mask)
    return value


keys = st.binary(max_size=40)


@given(st.lists(keys, max_size=8), st.integers(0, 2))
def test_keys_hash_together_as_they_do_alone_and_by_hand(some: list[bytes], more_words: int) -> None:
    lengths = np.array([len(key) for key in some], dtype=np.int64)
    width = max(8, (max([0, *map(len, some)]) + 7) & -8) + 8 * more_words
    padded = np.zeros((len(some), width), np.uint8)
    for row, key in enumerate(some):
        padded[row, : len(key)] = np.frombuffer(key, np.uint8)
    assert hash_keys(padded, lengths).tolist() == [hash_key(key) for key in some] == [hash_by_hand(key) for key in some]


@pytest.mark.parametrize(
    ("key", "golden"),
    [
        (b"", 0xE220A8397B1DCDAF),
        (b"a", 0x5E025F9ADE9EAF3E),
        (b"000123", 0x11387EE9641C3579),
        (b"12345678", 0x83DBEC76B33F9CA3),
        (b"123456789", 0x7CF46F00F45FA22A),
        ("folder/é".encode(), 0xE2CBD5414179A68E),
        (b"\xff\0\xff", 0xBE57B28C4771607E),
    ],
)
def test_a_hash_on_disk_stays_what_it_was(key: bytes, golden: int) -> None:
    assert hash_key(key) == golden
