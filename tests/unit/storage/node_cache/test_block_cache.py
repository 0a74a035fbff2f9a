"""Reads through blocks are right, fetch each block once, and stay within the limit."""

from __future__ import annotations

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loader.errors import StorageError
from loader.storage.node_cache import block_cache as cache_module
from loader.storage.node_cache.block_cache import BLOCK_BYTES, BlockCache

from .opened_caches import FakeObject, block_files, open_cache, size_of


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BlockCache:
    return open_cache(tmp_path, monkeypatch)


def test_every_range_is_right_and_each_block_is_fetched_once(cache: BlockCache, tmp_path: Path) -> None:
    large = FakeObject(0, 2 * BLOCK_BYTES + 100_000)
    choice = random.Random(1)
    edges = [0, 1, 16_383, 16_384, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, len(large.data) - 1]
    for start in edges + [choice.randrange(len(large.data)) for _ in range(200)]:
        large.read(cache, start, min(len(large.data), start + choice.randrange(1, 40_000)))
    large.read(cache)
    assert sorted(large.fetched) == [
        (0, BLOCK_BYTES),
        (BLOCK_BYTES, 2 * BLOCK_BYTES),
        (2 * BLOCK_BYTES, len(large.data)),
    ]
    assert len(block_files(tmp_path)) == 3


def test_another_process_uses_the_same_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = FakeObject(3, 100_000), FakeObject(3, 100_000)
    first.read(open_cache(tmp_path, monkeypatch), 5, 10)
    second.read(open_cache(tmp_path, monkeypatch))
    assert second.fetched == []


def test_another_version_is_another_object(cache: BlockCache) -> None:
    for number in (1, 2):
        for size_bytes in (1000, 1001):
            found = FakeObject(number, size_bytes)
            found.read(cache)  # compares the bytes
            assert found.fetched == [(0, size_bytes)]


@pytest.mark.parametrize("threads", [2, 32])
def test_threads_that_need_one_block_fetch_it_once(cache: BlockCache, threads: int) -> None:
    found = FakeObject(1, 1_000_000)
    fetch, begin = found.fetch, threading.Barrier(threads)

    def slow(start: int, stop: int) -> bytes:
        time.sleep(0.05)
        return fetch(start, stop)

    def read(number: int) -> bytes:
        begin.wait()
        return cache.read(found.source, number * 1000, number * 1000 + 1000, slow)

    with ThreadPoolExecutor(threads) as pool:
        assert [*pool.map(read, range(threads))] == [
            found.data[number * 1000 : number * 1000 + 1000] for number in range(threads)
        ]
    assert found.fetched == [(0, 1_000_000)]


def test_at_most_eight_blocks_are_fetched_at_a_time(cache: BlockCache) -> None:
    running, most = set[int](), 0

    def read(number: int) -> None:
        found = FakeObject(number, 1000)

        def slow(start: int, stop: int) -> bytes:
            nonlocal most
            running.add(number)
            most = max(most, len(running))
            time.sleep(0.01)
            running.discard(number)
            return found.fetch(start, stop)

        assert cache.read(found.source, 0, 1000, slow) == found.data

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(read, range(64)))
    assert most == 8


def test_an_error_reaches_all_who_wait_and_the_next_read_tries_again(cache: BlockCache) -> None:
    found, begin = FakeObject(1, 1000), threading.Barrier(4)

    def fail(start: int, stop: int) -> bytes:
        time.sleep(0.05)
        raise StorageError(f"cannot read bytes {start}–{stop}")

    def read(_: int) -> None:
        begin.wait()
        with pytest.raises(StorageError):
            cache.read(found.source, 0, 10, fail)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(4)))
    found.read(cache)


def test_the_folder_stays_within_the_limit_and_the_oldest_blocks_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = open_cache(tmp_path, monkeypatch, limit_bytes=1_100_000)
    objects = [FakeObject(number, 100_000) for number in range(30)]
    for age, found in enumerate(objects):
        before = set(block_files(tmp_path))
        found.read(cache, 0, 1000)  # a small part: blocks that are used up leave first
        (new,) = set(block_files(tmp_path)) - before
        os.utime(new, (age + 1, age + 1))
        assert size_of(tmp_path) <= 1_100_000
    again = open_cache(tmp_path, monkeypatch, limit_bytes=1_100_000)
    for found in reversed(objects):
        found.fetched.clear()
        found.read(again, 0, 1000)
        if found.fetched:
            break
    assert objects.index(found) <= 21


def test_blocks_that_are_used_up_leave_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = open_cache(tmp_path, monkeypatch, limit_bytes=1_100_000)
    objects = [FakeObject(number, 100_000) for number in range(20)]
    for found in objects[:9]:
        found.read(cache, 0, 1000)
    objects[9].read(cache)  # the last one, and all of it
    objects[10].read(cache, 0, 1000)
    for found in objects:
        found.fetched.clear()
    for found in objects[:9]:
        found.read(cache, 50_000, 60_000)
    assert [found.fetched for found in objects[:9]] == [[]] * 9
    objects[9].read(cache)
    assert objects[9].fetched


def test_a_cache_that_is_too_small_fetches_a_block_once_and_then_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = open_cache(tmp_path, monkeypatch, limit_bytes=500_000)
    objects = [FakeObject(number, 100_000) for number in range(50)]
    reads = [(number, start) for number in range(50) for start in range(0, 100_000, 5_000)]
    random.Random(1).shuffle(reads)
    for number, start in reads:
        objects[number].read(cache, start, start + 5_000)
    assert sum(found.fetched_bytes for found in objects) <= 2 * 50 * 100_000


def test_a_cache_for_half_of_the_objects_saves_nearly_half_of_later_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = open_cache(tmp_path, monkeypatch, limit_bytes=30 * 24_096)
    objects = [FakeObject(number, 20_000) for number in range(60)]
    for epoch in range(4):
        order = random.Random(epoch).sample(objects, k=len(objects))
        for found in order:
            found.fetched.clear()
        for window in range(0, len(order), 4):
            reads = [(found, start) for found in order[window : window + 4] for start in range(0, 20_000, 2_000)]
            random.Random(window).shuffle(reads)
            for found, start in reads:
                found.read(cache, start, start + 2_000)
        share = sum(found.fetched_bytes for found in objects) / (60 * 20_000)
        assert share == 1 if not epoch else share < 0.65


def test_processes_together_exceed_the_limit_by_no_more_than_each_may_add_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_UNSEEN_BYTES", 500_000)
    caches = [open_cache(tmp_path, monkeypatch, limit_bytes=2_000_000) for _ in range(4)]
    choice, most = random.Random(1), 0
    for number in range(300):
        FakeObject(number, 100_000).read(choice.choice(caches), 0, 1000)
        most = max(most, size_of(tmp_path))
    assert 1_500_000 < most <= 2_000_000 + 4 * 500_000


def test_no_block_is_written_where_too_little_of_the_disk_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache = open_cache(tmp_path, monkeypatch, free_bytes=1 << 60)
    found = FakeObject(1, 100_000)
    for start in range(10):
        found.read(cache, start, start + 10)
    assert found.fetched_bytes == 100
    assert block_files(tmp_path) == []
    assert len(caplog.records) == 1


def test_an_object_larger_than_the_limit_is_read_directly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = open_cache(tmp_path, monkeypatch, limit_bytes=50_000)
    found = FakeObject(1, 100_000)
    found.read(cache, 10, 20)
    assert found.fetched == [(10, 20)]


def test_a_forked_process_reads_through_the_cache(cache: BlockCache, tmp_path: Path) -> None:
    found = FakeObject(1, 1000)
    held = threading.Event()

    def hold() -> None:  # a lock that the child would wait for
        with cache._lock:
            held.set()
            time.sleep(1)

    threading.Thread(target=hold).start()
    held.wait()
    child = os.fork()
    if not child:
        from loader.storage.node_cache.node_cache import block_cache
        from loader.storage.node_cache.private_folder import CacheSettings

        opened = block_cache(CacheSettings(folder=str(tmp_path), free_bytes=0))
        os._exit(opened is None or opened.read(found.source, 0, 10, found.fetch) != found.data[:10])
    assert os.waitpid(child, 0)[1] == 0


def test_sparse_reads_fetch_only_their_bytes_until_an_eighth_of_a_block(cache: BlockCache, tmp_path: Path) -> None:
    found = FakeObject(7, BLOCK_BYTES)
    starts = random.Random(1).sample(range(0, BLOCK_BYTES, 16_384), 512)

    def read(start: int) -> None:
        stop = start + 16_384
        assert cache.read(found.source, start, stop, found.fetch, is_sparse=True) == found.data[start:stop]

    for start in starts[:63]:
        read(start)
    assert found.fetched_bytes == 63 * 16_384
    assert block_files(tmp_path) == []
    for start in starts[63:]:
        read(start)
    assert found.fetched_bytes == 63 * 16_384 + BLOCK_BYTES
    assert len(found.fetched) == 64


def test_sparse_reads_use_the_blocks_that_others_stored(cache: BlockCache) -> None:
    found = FakeObject(7, 1_000_000)
    found.read(cache, 0, 10)
    found.fetched.clear()
    assert cache.read(found.source, 500, 600, found.fetch, is_sparse=True) == found.data[500:600]
    assert found.fetched == []
