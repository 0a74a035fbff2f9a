"""Steps that the tests of all stores of files share."""

from __future__ import annotations

import threading

from loader.storage import Storage


def write(storage: Storage, name: str, content: bytes) -> None:
    with storage.create(name) as file:
        file.write(content)


def check_threads_read_at_the_same_time(storage: Storage, *, reads: int) -> None:
    """Read a file at four places in four threads, as often as given: no read may move the position of another."""
    write(storage, "x", bytes(range(256)) * 64)
    wrong: list[bytes] = []
    with storage.open("x") as file:

        def read_often(start: int) -> None:
            found = {file.read_at(start, 3) for _ in range(reads)}
            wrong.extend(found - {bytes([start, start + 1, start + 2])})

        threads = [threading.Thread(target=read_often, args=(start,)) for start in (0, 50, 100, 200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
