from __future__ import annotations

from pathlib import Path

import pytest

from loader.format.compat.files import cannot_express
from loader.format.index.shard_index import ShardIndex, index_shard
from loader.format.nv_meta import INDEX_SQLITE
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from loader.storage import LocalStorage
from tests.malformed.tar_bytes import END, member


def indexed(folder: Path, *names: str | bytes) -> ShardIndex:
    members = [member(name if isinstance(name, bytes) else name.encode(), b"hello") for name in names]
    (folder / "s.tar").write_bytes(b"".join(members) + END)
    return index_shard(LocalStorage(folder), "s.tar")


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["a.txt", "é.txt", "a b.é"], None),
        ([b"\xff.txt"], "not UTF-8"),
        ([b"a.\xff"], "not UTF-8"),
        # Each key is half of an é, and joined they are valid UTF-8.
        ([b"\xc3.txt", b"\xa9.txt"], "not UTF-8"),
        ([b"a\xe2\x82.txt", b"\xac.txt"], "not UTF-8"),
        ([b"\xa9.txt"], "not UTF-8"),
        (["a.txt", "b.txt", "a.jpg"], "1 sample has parts that are not neighbours"),
        (["d/a.txt", "d/.DS_Store"], "hidden file"),
    ],
)
def test_what_it_cannot_express_is_said(tmp_path: Path, names: list[bytes | str], reason: str | None) -> None:
    found = cannot_express(indexed(tmp_path, *names))
    assert found is None if reason is None else reason in (found or "")


def test_halves_of_a_character_in_neighbouring_keys_leave_the_compat_files_out(tmp_path: Path) -> None:
    indexed(tmp_path, b"\xc3.txt", b"\xa9.txt")
    plan = PreparePlan(path=str(tmp_path), split=SplitRequest(ratio={"train": 1.0}))
    assert any("UTF-8" in warning for warning in run_prepare(plan).warnings)
    assert not run_prepare(plan).scanned
    assert sorted(path.name for path in tmp_path.iterdir()) == [".nv-meta", "s.tar"]
    assert not (tmp_path / INDEX_SQLITE).exists()
