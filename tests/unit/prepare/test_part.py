"""The division of shards into parts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hypothesis import given, strategies as st

from loader.engine.share import Share
from loader.prepare.part import divide_shards, shards_of, shares_journal
from loader.storage import FileInfo, LocalStorage

MIB = 1 << 20


def shards(sizes: list[int]) -> list[FileInfo]:
    return [FileInfo(name=f"{number}.tar", size_bytes=size, mtime_ns=0) for number, size in enumerate(sizes)]


@given(st.lists(st.integers(0, 1000 * MIB), max_size=60), st.integers(1, 80))
def test_each_shard_is_in_one_part_and_parts_are_about_equal(sizes: list[int], parts: int) -> None:
    files = shards(sizes)
    plan = divide_shards(files, parts)
    divided = [shards_of(plan, Share(number, parts)) for number in range(1, parts + 1)]
    assert [name for names in divided for name in names] == [file.name for file in files]
    weights = {file.name: file.size_bytes + MIB for file in files}
    fair = sum(weights.values()) / parts
    assert all(sum(weights[name] for name in names) <= fair + max(weights.values(), default=0) for names in divided)


def test_equal_shards_leave_no_part_empty() -> None:
    plan = divide_shards(shards([5 * MIB] * 65), 64)
    assert {len(shards_of(plan, Share(number, 64))) for number in range(1, 65)} == {1, 2}


def test_names_of_shards_may_have_any_characters() -> None:
    names = ["a b/50%.tar", "line\nfeed.tar", "\udce9.tar", "é.tar"]
    assert shards_of(divide_shards([FileInfo(name=name, size_bytes=1, mtime_ns=0) for name in names], 2)) == names


def test_of_many_writers_one_writes_the_plan(tmp_path: Path) -> None:
    names = [[f"{writer}-{number}\udce9.tar" for number in range(100)] for writer in range(16)]
    plans = [divide_shards([FileInfo(name=n, size_bytes=1, mtime_ns=0) for n in group], 4) for group in names]
    with ThreadPoolExecutor(16) as threads:
        written = list(threads.map(lambda plan: shares_journal(LocalStorage(tmp_path)).describe(plan), plans))
    assert all(each == shares_journal(LocalStorage(tmp_path)).job() for each in written)
    assert written[0] in plans
    assert shards_of(written[0]) in names
