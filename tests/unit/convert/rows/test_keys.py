"""Keys of samples can be written, read again, and occur once."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, strategies as st

from loader.convert.rows.key_names import key_of_path
from loader.convert.rows.row import rename_repeated
from loader.convert.writing.seen_keys import hash_key
from loader.format.tar.names import split_member_name


@given(st.text(max_size=80))
def test_any_path_gives_a_key_that_a_tar_member_keeps(path: str) -> None:
    key = key_of_path(path)
    assert split_member_name(f"{key}.jpg") == (key, "jpg")
    assert ".." not in key.split("/")
    assert not key.startswith("/")


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("a/b", "a/b"),
        ("photo.v2", "photo_v2"),
        ("a.b/c.d", "a.b/c_d"),
        ("/abs//x", "abs/x"),
        ("..", "_"),
        ("new\nline", "new_line"),
        (os.fsdecode(b"latin-\xe9"), "latin-\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_keys_of_paths(path: str, key: str) -> None:
    assert key_of_path(path) == key


def test_long_paths_give_keys_of_their_own() -> None:
    first, second = key_of_path("x" * 3000 + "1"), key_of_path("x" * 3000 + "2")
    assert first != second
    assert len(first) <= 1000


@given(st.lists(st.sampled_from(["a", "b", "a-2", "a-3", "b-2", "a-2-2"]), max_size=30))
def test_repeated_keys_get_a_number_that_no_key_has(keys: list[str]) -> None:
    hashes = np.array([hash_key(key) for key in keys], np.int64)
    renamed = rename_repeated(hashes, lambda row: keys[row])
    final = [renamed.get(row, key) for row, key in enumerate(keys)]
    assert len(set(final)) == len(final)
    firsts = {key: keys.index(key) for key in keys}
    assert all(final[row] == key for key, row in firsts.items()), "the first row of a key keeps it"
