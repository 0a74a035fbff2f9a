"""The promises of every store of files, as tests: a module with a fixture ``storage`` derives a class from it."""

from __future__ import annotations

import threading

import pytest

from ..errors import StorageError
from ..storage import Storage


def write(storage: Storage, name: str, content: bytes) -> None:
    """Write a file."""
    with storage.create(name) as file:
        file.write(content)


def write_interrupted(storage: Storage, name: str, error: BaseException) -> None:
    """Write a file with the content ``old``, and write it again until an error interrupts the write."""
    write(storage, name, b"old")

    def interrupted_write() -> None:
        with storage.create(name) as file:
            file.write(b"new")
            raise error

    with pytest.raises(type(error)):
        interrupted_write()


class StorageContract:
    """The promises that do not depend on the kind of store."""

    def test_what_was_written_is_read(self, storage: Storage) -> None:
        write(storage, "a/b/c d+é%.bin", b"0123456789")
        assert storage.read("a/b/c d+é%.bin") == b"0123456789"
        assert storage.read("a/b/c d+é%.bin", 2, 5) == b"234"

    def test_a_read_beyond_the_end_gives_what_is_there(self, storage: Storage) -> None:
        write(storage, "x", b"0123")
        with storage.open("x") as file:
            assert file.size_bytes == 4
            assert (file.read_at(2, 100), file.read_at(4, 1), file.read_at(100, 1)) == (b"23", b"", b"")

    def test_a_range_of_a_file_ends_with_the_file(self, storage: Storage) -> None:
        write(storage, "x", b"0123")
        write(storage, "empty", b"")
        assert (storage.read("x", 0, 100), storage.read("x", 1, 3), storage.read("x", 2, 100)) == (
            b"0123",
            b"12",
            b"23",
        )
        assert storage.read("empty", 0, 100) == b""

    def test_what_is_fetched_ahead_reads_the_same(self, storage: Storage) -> None:
        write(storage, "a/x", b"0123")
        if storage.ahead is not None:
            storage.ahead.list_once("a")
            storage.ahead.prefetch(["a/x"])
            storage.ahead.prefetch_fixed(["a/x"])
            assert storage.ahead.settle_prefetched()
        assert storage.read("a/x", 0, 2) == b"01"
        assert storage.local_path("a/x", is_fixed=True).read_bytes() == storage.read("a/x") == b"0123"
        assert (storage.exists("a/x"), storage.exists("a/y")) == (True, False)

    def test_threads_share_a_store(self, storage: Storage) -> None:
        write(storage, "x", bytes(range(256)) * 64)
        wrong: list[bytes] = []
        with storage.open("x") as file:

            def read_often(start: int) -> None:
                contents = {file.read_at(start, 3) for _ in range(30)}
                wrong.extend(contents - {bytes([start, start + 1, start + 2])})

            threads = [threading.Thread(target=read_often, args=(start,)) for start in (0, 50, 100, 200)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert not wrong

    def test_a_listing_is_sorted_and_leaves_hidden_folders_out(self, storage: Storage) -> None:
        for name in ("b.tar", "a/z.tar", "a/.hidden/x", ".nv-meta/split.yaml", "a.tar", "a/b/c.tar", "ab/c.tar"):
            write(storage, name, b"12")
        assert [info.name for info in storage.list()] == ["a.tar", "a/b/c.tar", "a/z.tar", "ab/c.tar", "b.tar"]
        assert [info.name for info in storage.list("a")] == ["a/b/c.tar", "a/z.tar"]
        assert [info.name for info in storage.list(".nv-meta")] == [".nv-meta/split.yaml"]
        assert {info.size_bytes for info in storage.list()} == {2}

    @pytest.mark.parametrize("action", ["open", "read", "stat"])
    def test_a_missing_file_is_an_error_that_names_it(self, storage: Storage, action: str) -> None:
        with pytest.raises(StorageError, match=r"No such file|does not exist") as caught:
            getattr(storage, action)("gone.tar")
        assert caught.value.path == storage.path("gone.tar")
        assert caught.value.is_missing
        assert str(caught.value).count("\n") == 2  # message, at, hint

    @pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
    def test_an_interrupted_write_leaves_what_was_there(self, storage: Storage, error: BaseException) -> None:
        write_interrupted(storage, "a/x", error)
        assert storage.read("a/x") == b"old"
        assert [info.name for info in storage.list("a")] == ["a/x"]

    def test_files_folders_and_nothing_at_all_can_be_removed(self, storage: Storage) -> None:
        write(storage, "a/b/x", b"")
        write(storage, "y", b"")
        write(storage, "ya", b"stays")
        for name in ("a", "y", "gone"):
            storage.remove(name)
            assert not storage.exists(name)
        assert storage.read("ya") == b"stays"

    def test_of_several_writers_one_creates_a_file(self, storage: Storage) -> None:
        created: list[bytes] = []

        def create(content: bytes) -> None:
            if storage.create_once("a/x", content):
                created.append(content)

        threads = [threading.Thread(target=create, args=(bytes([writer]),)) for writer in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [storage.read("a/x")] == created
        assert not storage.create_once("a/x", b"later")
        assert [storage.read("a/x")] == created
