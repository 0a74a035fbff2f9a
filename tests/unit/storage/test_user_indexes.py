"""The user's folder of indexes: where it is, and its limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loader.errors import ConfigError, StorageError
from loader.storage.user_indexes import derived_indexes, find_derived, limit_derived

FOLDERS = ("ENERGON_INDEX", "ENERGON_INDEX_BYTES", "XDG_CACHE_HOME", "HOME")


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FOLDERS:
        monkeypatch.delenv(name, raising=False)


def paths() -> list[str]:
    return [folder.path("") for folder in derived_indexes()]


def test_the_folder_is_a_cache_of_the_user_unless_a_variable_names_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert paths() == ["/home/me/.cache/energon/index/derived"]
    monkeypatch.setenv("XDG_CACHE_HOME", "/scratch/me")
    assert paths() == ["/scratch/me/energon/index/derived"]
    monkeypatch.setenv("ENERGON_INDEX", "~/index:/shared/index")
    assert paths() == ["/home/me/index/derived", "/shared/index/derived"]


def test_a_user_without_a_home_is_asked_for_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(StorageError, match="no home") as caught:
        derived_indexes()
    assert caught.value.hint == "set ENERGON_INDEX to a folder"


def test_an_index_is_found_in_all_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENERGON_INDEX", f"{tmp_path / 'mine'}:{tmp_path / 'shared'}")
    assert find_derived("a.idx") is None
    (tmp_path / "shared" / "derived").mkdir(parents=True)
    (tmp_path / "shared" / "derived" / "a.idx").write_bytes(b"shared")
    folder = find_derived("a.idx")
    assert folder is not None
    assert folder.read("a.idx") == b"shared"


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of three indexes of 100 bytes, one of them a folder: b was used longest ago, then a, then c."""
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path))
    (tmp_path / "mine.yaml").write_bytes(b"x" * 1000)
    folder = tmp_path / "derived"
    for name in ("a", "b/part", "c"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * 100)
    for age, name in enumerate(("c", "a", "b"), 1):
        os.utime(folder / name, (1_000_000 - age, 1_000_000 - age))
    return folder


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("limit", "names"), [("300", ["a", "b", "c"]), ("299", ["a", "c"]), ("199", ["c"]), ("0", ["c"])]
)
def test_the_limit_removes_what_was_used_longest_ago(
    mine: Path, monkeypatch: pytest.MonkeyPatch, limit: str, names: list[str]
) -> None:
    monkeypatch.setenv("ENERGON_INDEX_BYTES", limit)
    limit_derived(used="c")
    assert left(mine) == names
    assert (mine.parent / "mine.yaml").exists(), "what cannot be rebuilt stays"


def test_an_index_that_is_found_counts_as_used(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENERGON_INDEX_BYTES", "200")
    assert find_derived("b") is not None
    limit_derived(used="c")
    assert left(mine) == ["b", "c"]


def test_a_wrong_limit_is_named(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENERGON_INDEX_BYTES", "lots")
    with pytest.raises(ConfigError, match="expected a number of bytes in ENERGON_INDEX_BYTES"):
        limit_derived(used="c")
    assert len(left(mine)) == 3


def test_an_index_that_another_process_removed_is_no_error(mine: Path) -> None:
    limit_derived(used="d")
    assert left(mine) == ["a", "b", "c"]
