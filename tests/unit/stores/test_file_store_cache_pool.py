"""Fetch files ahead: the cache, its limits, errors, and processes."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import random
import stat
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from loader import ConfigError, EnergonError, FileStoreDecoder, SampleDecoder, StorageError
from loader.stores import (
    CacheFileLazy,
    DecodeFileStore,
    DirectLazy,
    FileCacheLazy,
    FileStore,
    FileStoreCachePool,
    MissingFileError,
    PrimaryFileStore,
    SystemFileStore,
)
from loader.stores.scratch_file import Extent
from tests.processes import wait_until
from tests.unit.stores.recording_store import RecordingStore, content

FILE = 1000  # bytes of a recording store's file
METHODS = ["raw", "pickle"]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Any]:
    pool = make_pool(tmp_path)
    yield pool
    pool.close()


def make_pool(tmp_path: Path, *, files: int = 1000, **options: Any) -> FileStoreCachePool:
    size = files * FILE / (1 << 30)
    return FileStoreCachePool(parent_cache_dir=tmp_path / "cache", max_cache_size_gbytes=size, **options)


def is_idle(pool: FileStoreCachePool) -> bool:
    return all(entry.state.name not in ("QUEUED", "FETCHING") for entry in pool.fetcher._entries.values())


# --------------------------------------------------------------------------------------------------- the cache


@pytest.mark.parametrize("method", METHODS)
def test_a_file_is_there_before_it_is_asked_for(tmp_path: Path, method: str) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files/1.json").write_bytes(b'{"number": 1}')
    store = DecodeFileStore(SystemFileStore(tmp_path / "files"), decoder=SampleDecoder())
    pool = make_pool(tmp_path, method=method)
    lazy = pool.get_lazy(store, "1.json")
    wait_until(lambda: is_idle(pool))
    (tmp_path / "files/1.json").unlink()
    sample: dict[str, Any] = {}
    assert lazy.get(sample) == {"number": 1}
    assert lazy.get() is lazy.get()
    assert [source.file_names for source in sample["__sources__"]] == [("1.json",)]
    pool.close()


def test_a_file_that_several_ask_for_is_fetched_once_and_kept_for_the_last(pool: FileStoreCachePool) -> None:
    store = RecordingStore()
    first, second = pool.get_lazy(store, "a"), pool.get_lazy(store, "a")
    assert first == second
    assert len({first, second, pool.get_lazy(store, "b")}) == 2
    assert first.get() == second.get() == content("a")
    assert sorted(store.read) in (["a"], ["a", "b"])


def test_the_store_of_a_sample_asks_for_the_same_file_as_that_of_the_dataset(pool: FileStoreCachePool) -> None:
    store = RecordingStore()
    lazy = pool.get_lazy(PrimaryFileStore(store, "s.tar/1"), ".txt")
    assert lazy == pool.get_lazy(store, "s.tar/1.txt")
    assert lazy.ds is store
    assert lazy.get() == content("s.tar/1.txt")


def test_a_place_is_free_when_the_last_lazy_was_got_or_dropped(pool: FileStoreCachePool) -> None:
    store = RecordingStore()
    lazies = [pool.get_lazy(store, name) for name in "aab"]
    wait_until(lambda: is_idle(pool))
    assert (pool.fetcher.count, pool.fetcher.size_bytes) == (2, 2 * FILE)
    lazies[0].get()
    assert pool.fetcher.size_bytes == 2 * FILE
    lazies[1].get()
    assert (pool.fetcher.count, pool.fetcher.size_bytes) == (1, FILE)
    del lazies[2]
    assert (pool.fetcher.count, pool.fetcher.size_bytes) == (0, 0)


def test_a_lazy_that_is_dropped_before_its_turn_is_not_fetched(tmp_path: Path) -> None:
    pool, store = make_pool(tmp_path, num_workers=1), RecordingStore()
    store.hold.clear()
    first = pool.get_lazy(store, "first")
    wait_until(lambda: store.read == ["first"])
    dropped, last = pool.get_lazy(store, "dropped"), pool.get_lazy(store, "last")
    del dropped
    store.hold.set()
    assert [first.get(), last.get()] == [content("first"), content("last")]
    wait_until(lambda: pool.fetcher.count == 0)
    assert store.read == ["first", "last"]
    pool.close()


def test_raw_files_are_decoded_by_those_who_get_them_and_pickled_ones_by_the_threads(tmp_path: Path) -> None:
    for method, expected in (("raw", "MainThread"), ("pickle", "energon-cache-0")):
        pool, decoder = make_pool(tmp_path, num_workers=1, method=method), _ThreadNames()
        lazy = pool.get_lazy(DecodeFileStore(RecordingStore(), decoder=decoder), "a.bin")
        wait_until(partial(is_idle, pool))
        assert lazy.get() == expected
        pool.close()


class _ThreadNames(FileStoreDecoder):
    def decode(self, fname: str, data: bytes) -> str:
        return threading.current_thread().name


def test_what_is_kept_has_no_name_and_is_nobody_elses(tmp_path: Path, pool: Any) -> None:
    lazy = pool.get_lazy(RecordingStore(), "a")
    wait_until(lambda: is_idle(pool))
    assert os.listdir(tmp_path / "cache") == []
    status = os.fstat(lazy.entry.extent.segment.fd)
    assert (stat.S_IMODE(status.st_mode), status.st_nlink, status.st_uid) == (0o600, 0, os.getuid())


# ------------------------------------------------------------------------------------------------ without space


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_one_thread_gets_more_files_than_there_is_room_for(tmp_path: Path, method: str, backwards: bool) -> None:
    pool, store = make_pool(tmp_path, files=3, num_workers=2, method=method), RecordingStore()
    names = [f"{number:02d}" for number in range(40)]
    lazies = [pool.get_lazy(store, name) for name in names]
    wait_until(lambda: pool.fetcher.size_bytes == 3 * FILE)
    order = lazies[::-1] if backwards else lazies
    for lazy in order:
        assert lazy.get() == content(lazy.fname)
        assert pool.fetcher.size_bytes <= 3 * FILE
    assert sorted(store.read) == names
    wait_until(lambda: pool.fetcher.size_bytes == 0)
    pool.close()


def test_the_threads_wait_for_room_and_go_on_when_there_is_some(tmp_path: Path) -> None:
    pool, store = make_pool(tmp_path, files=2, num_workers=1), RecordingStore()
    lazies = [pool.get_lazy(store, name) for name in "abcd"]
    wait_until(lambda: store.read == ["a", "b", "c"])  # no space for c
    lazies[0].get()
    wait_until(lambda: store.read == ["a", "b", "c", "d"])
    assert [lazy.get() for lazy in lazies[1:]] == [content("b"), content("c"), content("d")]
    assert store.read == ["a", "b", "c", "d"]
    pool.close()


def test_a_file_larger_than_the_cache_is_fetched_when_it_is_got(tmp_path: Path) -> None:
    pool, store = make_pool(tmp_path, files=2), RecordingStore(size=3 * FILE)
    lazy, again = pool.get_lazy(store, "large"), pool.get_lazy(store, "large")
    wait_until(lambda: is_idle(pool))
    assert lazy.get() == again.get() == content("large", 3 * FILE)
    pool.close()


def test_behind_the_count_lazies_wait_in_the_queue_and_are_fetched_once_there_is_room(tmp_path: Path) -> None:
    pool, store = make_pool(tmp_path, max_cache_count=2, num_workers=1), RecordingStore()
    lazies = [pool.get_lazy(store, name) for name in "abcd"]
    wait_until(lambda: store.read == ["a", "b", "c"])  # the thread waits with c
    assert (pool.current_cache_count, pool.current_cache_size) == (2, 2 * FILE)
    assert lazies[3].get() == content("d")
    lazies[0].get()
    wait_until(lambda: pool.current_cache_count == 2)
    assert lazies[2].get() == content("c")
    assert store.read == ["a", "b", "c", "d"]
    pool.close()


def test_a_file_that_was_got_before_its_turn_is_still_fetched_ahead_for_its_other_lazies(tmp_path: Path) -> None:
    pool, store = make_pool(tmp_path, max_cache_count=1, num_workers=1), RecordingStore()
    lazies = [pool.get_lazy(store, name) for name in "abcc"]
    wait_until(lambda: store.read == ["a", "b"])  # the thread waits with b
    assert lazies[2].get() == content("c")
    lazies[0].get()
    lazies[1].get()
    wait_until(lambda: pool.current_cache_count == 1)
    assert lazies[3].get() == content("c")
    assert pool.current_cache_count == 0
    pool.close()


def test_a_file_that_is_got_while_its_thread_waits_for_room_is_read_once_more_at_most(tmp_path: Path) -> None:
    pool, store = make_pool(tmp_path, max_cache_count=1, num_workers=1), RecordingStore()
    lazies = [pool.get_lazy(store, name) for name in "abb"]
    wait_until(lambda: store.read == ["a", "b"])  # the thread waits with b
    assert lazies[1].get() == content("b")
    wait_until(lambda: store.read == ["a", "b", "b"])  # for the other lazy
    assert lazies[2].get() == content("b")
    assert store.read == ["a", "b", "b"]
    pool.close()


def test_a_full_disk_is_tried_once_for_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(Extent, "write", full)
    pool, store = make_pool(tmp_path, num_workers=1), RecordingStore()
    lazies = [pool.get_lazy(store, name) for name in "ab"]
    wait_until(lambda: is_idle(pool))
    assert store.read == ["a", "b"]
    assert [lazy.get() for lazy in lazies] == [content("a"), content("b")]
    assert store.read == ["a", "b", "a", "b"]
    pool.close()


def test_limits_that_are_set_later_hold_for_files_that_wait(tmp_path: Path) -> None:
    pool, store = make_pool(tmp_path, max_cache_count=1), RecordingStore()
    lazies = [pool.get_lazy(store, name) for name in "abc"]
    wait_until(lambda: pool.current_cache_count == 1)
    pool.max_cache_count = 100
    wait_until(lambda: is_idle(pool))
    assert pool.current_cache_count == 3
    pool.max_cache_size = 3 * FILE
    lazies.append(pool.get_lazy(store, "d"))
    wait_until(lambda: "d" in store.read)
    assert (pool.current_cache_count, pool.max_cache_size_gbytes) == (3, 3 * FILE / (1 << 30))
    assert pickle.loads(pickle.dumps(pool)).max_cache_size == 3 * FILE
    pool.max_cache_size_gbytes = 0.5
    with pytest.raises(ConfigError, match="expected limits of at least 1 byte and 1 file, found 536870912 and 0"):
        pool.max_cache_count = 0
    assert (pool.max_cache_size, pool.max_cache_count) == (1 << 29, 100)
    pool.close()


def test_whoever_gets_a_file_before_its_turn_fetches_it(tmp_path: Path) -> None:
    pool, slow, store = make_pool(tmp_path, num_workers=1), RecordingStore(), RecordingStore()
    slow.hold.clear()
    blocker = pool.get_lazy(slow, "slow")
    wait_until(lambda: slow.read == ["slow"])
    lazy, shared = pool.get_lazy(store, "a"), pool.get_lazy(store, "a")
    assert lazy.get() == content("a")
    assert store.threads == ["MainThread"]
    assert shared.get() == content("a")
    assert store.read == ["a"]
    slow.hold.set()
    assert blocker.get() == content("slow")
    pool.close()


# ------------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize("method", METHODS)
def test_an_error_of_a_thread_is_raised_where_the_file_is_got_with_its_cause(tmp_path: Path, method: str) -> None:
    pool = make_pool(tmp_path, method=method)
    lazy = pool.get_lazy(RecordingStore(), "bad")
    wait_until(lambda: is_idle(pool))
    with pytest.raises(ValueError, match="bad is bad") as caught:
        lazy.get()
    assert str(caught.value.__cause__) == "the cause"
    (tmp_path / "files").mkdir()
    with pytest.raises(MissingFileError):
        pool.get_lazy(SystemFileStore(tmp_path / "files"), "gone").get()
    assert pool.fetcher.count == 0
    pool.close()


def test_a_file_that_failed_once_is_tried_again_when_it_is_got_again(tmp_path: Path, pool: FileStoreCachePool) -> None:
    (tmp_path / "files").mkdir()
    lazy = pool.get_lazy(SystemFileStore(tmp_path / "files"), "late.txt")
    with pytest.raises(MissingFileError):
        lazy.get()
    (tmp_path / "files/late.txt").write_bytes(b"here")
    assert lazy.get() == b"here"


def test_what_does_not_decode_is_told_when_it_is_got(tmp_path: Path, pool: FileStoreCachePool) -> None:
    (tmp_path / "1.png").write_bytes(b"no picture")
    store = DecodeFileStore(SystemFileStore(tmp_path), decoder=SampleDecoder())
    with pytest.raises(EnergonError, match=r"file '1\.png': part 'png' is not an image"):
        pool.get_lazy(store, "1.png").get()


def test_values_that_do_not_pickle_are_fetched_when_they_are_got(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Functions(RecordingStore):
        def __getitem__(self, key: Any) -> Any:
            return (lambda: key), super().__getitem__(key)[1]

    pool = make_pool(tmp_path, method="pickle")
    stores: list[FileStore[Any]] = [Functions(), Functions()]
    lazies = [pool.get_lazy(store, name) for store, name in zip(stores, "ab", strict=True)]
    wait_until(lambda: is_idle(pool))
    assert [lazy.get()() for lazy in lazies] == ["a", "b"]
    assert len(caplog.records) == 1
    assert "cannot cache all files" in caplog.text
    pool.close()


@pytest.mark.parametrize("allowed", [0, 1])
def test_where_the_system_allows_no_more_threads_files_are_fetched_when_they_are_got(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, allowed: int
) -> None:
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def start_some(thread: Any) -> None:
        if len(started) == allowed:
            raise RuntimeError("can't start new thread")  # the error of CPython at the limit of processes
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    pool, store = make_pool(tmp_path, num_workers=4), RecordingStore()
    lazies = [pool.get_lazy(store, name) for name in "abcd"]
    assert [lazy.get() for lazy in lazies] == [content(name) for name in "abcd"]
    assert caplog.text.count("can't start new thread") == 1
    pool.close()


def test_arguments_out_of_range_are_told_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        FileStoreCachePool(num_workers=0, max_cache_size_gbytes=0, max_cache_count=0, method="zip")  # type: ignore[arg-type]
    assert str(caught.value).splitlines() == [
        "num_workers: expected at least 1, found 0",
        "max_cache_size_gbytes: expected more than 0, found 0",
        "max_cache_count: expected at least 1, found 0",
        "method: expected 'raw' or 'pickle', found 'zip'",
    ]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot create a cache file in this folder"):
        FileStoreCachePool(parent_cache_dir=tmp_path / "file").get_lazy(RecordingStore(), "a")


# ------------------------------------------------------------------------------------------------ stored values


@pytest.mark.parametrize(
    "value",
    [b"bytes", np.arange(6).reshape(2, 3), torch.arange(6.0), Image.new("RGB", (3, 4), "red"), {"a": [1, None]}],
    ids=["bytes", "array", "tensor", "image", "dict"],
)
def test_a_value_that_was_put_away_comes_back(pool: FileStoreCachePool, value: Any) -> None:
    lazy = pool.to_cache(value, "name")
    assert pool.fetcher.size_bytes > 0
    assert isinstance(lazy.get(), Image.Image if isinstance(value, Image.Image) else type(value))
    assert np.array_equal(np.asarray(lazy.get()), np.asarray(value))
    assert lazy.get() is lazy.get()
    wait_until(lambda: pool.fetcher.size_bytes == 0)
    assert lazy.fname == "name"
    assert lazy != pool.to_cache(value, "name")


def test_a_value_that_is_not_needed_frees_its_place_and_one_that_travels_takes_itself_along(
    pool: FileStoreCachePool,
) -> None:
    lazy = pool.to_cache([1, 2], "name")
    assert pickle.loads(pickle.dumps(lazy)).get() == lazy.get() == [1, 2]
    lazy = pool.to_cache([1, 2], "name")
    del lazy
    wait_until(lambda: pool.fetcher.size_bytes == 0)


def test_a_value_without_room_or_that_does_not_pickle_stays_in_memory(tmp_path: Path) -> None:
    pool = make_pool(tmp_path, files=1)
    value, function = bytes(2 * FILE), lambda: None
    assert pool.to_cache(value, "large").get() is value
    assert pool.to_cache(function, "function").get() is function
    pool.close()


# --------------------------------------------------------------------------------- lifetimes of pools and lazies


def test_after_the_pool_is_closed_lazies_fetch_their_files(tmp_path: Path) -> None:
    pool, store = make_pool(tmp_path), RecordingStore()
    lazies, value = [pool.get_lazy(store, name) for name in "ab"], pool.to_cache([1], "value")
    wait_until(lambda: is_idle(pool))
    fetcher = pool.fetcher
    threads = list(fetcher._threads)
    pool.close()
    pool.close()
    assert threads
    assert not any(thread.is_alive() for thread in threads)
    assert fetcher.count == 1  # the value
    assert [lazy.get() for lazy in lazies] == [content("a"), content("b")]
    assert store.read.count("a") == 2
    assert value.get() == [1]
    assert pool.get_lazy(store, "c").get() == content("c")  # a new fetcher
    pool.close()


def test_a_pool_that_nobody_holds_stops_its_threads() -> None:
    pool = FileStoreCachePool(num_workers=2)
    lazy = pool.get_lazy(RecordingStore(), "a")
    threads = pool.fetcher._threads
    del pool
    assert lazy.get() == content("a")
    assert all(thread.is_alive() for thread in threads)
    del lazy
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("got", [False, True])
def test_a_pickled_lazy_fetches_its_file_and_leaves_what_was_got_behind(
    tmp_path: Path, pool: FileStoreCachePool, got: bool
) -> None:
    (tmp_path / "large").write_bytes(bytes(100_000))
    for lazy in (
        pool.get_lazy(SystemFileStore(tmp_path), "large"),
        DirectLazy(ds=SystemFileStore(tmp_path), fname="large", pool=pool),
    ):
        if got:
            lazy.get()
        text = pickle.dumps(lazy)
        assert len(text) < 1000
        copy = pickle.loads(text)
        assert type(copy) is type(lazy)
        assert copy == lazy
        assert copy.get() == bytes(100_000)
        assert isinstance(copy.pool, FileStoreCachePool)
        assert copy.pool.parent_cache_dir == pool.parent_cache_dir
        assert not copy.pool._fetchers


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("locked", [True, False])
def test_a_forked_process_works_with_threads_and_files_of_its_own(tmp_path: Path, locked: bool) -> None:
    pool, store = make_pool(tmp_path), RecordingStore()
    lazy, value = pool.get_lazy(store, "a"), pool.to_cache([1], "value")
    wait_until(lambda: is_idle(pool))
    if locked:
        pool.fetcher._lock.acquire()  # like a thread of the parent, which the child does not have
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            assert lazy.get() == content("a")
            assert store.threads[-1] == "MainThread"
            own = pool.get_lazy(store, "b")
            assert isinstance(own, FileCacheLazy)
            wait_until(lambda: is_idle(pool))
            assert store.threads[-1].startswith("energon-cache")
            assert own.get() == content("b")
            with pytest.raises(EnergonError, match="in a fork of the process that stored it"):
                value.get()
            del lazy, value, own
            pool.close()
            code = 0
        finally:
            os._exit(code)
    if locked:
        pool.fetcher._lock.release()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert value.get() == [1]
    assert lazy.get() == content("a")
    assert store.read == ["a"]
    pool.close()


def test_threads_get_and_drop_files_at_random_and_nothing_is_left(tmp_path: Path) -> None:
    """With little space, lazies in reference cycles that the collector frees at any place, and files with errors."""
    pool, store = make_pool(tmp_path, files=12, num_workers=3, max_cache_count=20), RecordingStore(size=3000)
    faults: list[object] = []

    def work(seed: int) -> None:
        draw = random.Random(seed)
        waiting: list[FileCacheLazy[Any]] = []
        for _ in range(300):
            waiting.append(pool.get_lazy(store, draw.choice(["bad", *"abcdefghijklmnopqrstuvwxyz"])))
            if draw.random() < 0.2:
                cycle: list[object] = [waiting.pop()]
                cycle.append(cycle)
            while len(waiting) > draw.randrange(12):
                lazy = waiting.pop(draw.randrange(len(waiting)))
                try:
                    if lazy.get() != content(lazy.fname, 3000):
                        faults.append(lazy)
                except ValueError:
                    if lazy.fname != "bad":
                        faults.append(lazy)

    old = gc.get_threshold()
    gc.set_threshold(20)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    finally:
        gc.set_threshold(*old)
    gc.collect()
    assert not faults
    wait_until(lambda: pool.fetcher.count == 0)
    wait_until(lambda: pool.fetcher.size_bytes == 0)
    pool.close()


def test_the_size_of_the_cache_is_known_and_its_bytes_have_no_file(tmp_path: Path) -> None:
    pool = make_pool(tmp_path)
    assert (pool.cache_dir, pool.current_cache_size, pool.current_cache_count) == (tmp_path / "cache", 0, 0)
    lazy = pool.get_lazy(RecordingStore(), "a")
    wait_until(lambda: is_idle(pool))
    value = pool.to_cache([1, 2], "numbers")
    assert (pool.current_cache_size, pool.current_cache_count) == (pool.fetcher.size_bytes, 2)
    assert 0 < pool.current_cache_size <= pool.max_cache_size
    assert isinstance(lazy, FileCacheLazy)
    assert isinstance(value, CacheFileLazy)
    assert lazy.cache_path is value.cache_path is None
    assert not list(pool.cache_dir.iterdir())
    assert (lazy.get(), value.get()) == (content("a"), [1, 2])
    pool.close()
    assert (pool.current_cache_size, FileStoreCachePool().cache_dir) == (0, Path(tempfile.gettempdir()))
