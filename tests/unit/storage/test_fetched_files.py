"""Files at URLs are fetched once, however they are announced and taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from loader.errors import SampleError
from loader.storage import DownloadOptions
from loader.storage.remote.fetched_files import Downloads
from tests.hostile_server import HostileServer, whole


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer({"": whole(b"data")}) as server:
        yield server


def test_a_file_that_is_taken_before_its_turn_is_fetched_once(server: HostileServer, tmp_path: Path) -> None:
    urls = [f"{server.url}/{number}" for number in range(60)]
    with closing(Downloads(str(tmp_path / "kept"), DownloadOptions(allow_private=True))) as downloads:
        downloads.announce(urls)
        for url in reversed(urls):
            assert Path(downloads.take(url)).read_bytes() == b"data"
            downloads.discard(url)
        assert not downloads._queue
    assert Counter(server.requests) == {f"/{number}".encode(): 1 for number in range(60)}
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


def test_kept_files_and_failures_are_not_requested_again(server: HostileServer, tmp_path: Path) -> None:
    server.answers["/gone"] = whole(b"", status="404 Not Found")
    options = DownloadOptions(allow_private=True)
    for keeps in (True, False, False):
        with closing(Downloads(str(tmp_path), options, keeps=keeps)) as downloads:
            downloads.announce([f"{server.url}/a", f"{server.url}/gone"])
            downloads.take(f"{server.url}/a")
            with pytest.raises(SampleError, match="does not exist") as caught:
                downloads.take(f"{server.url}/gone")
            assert keeps or caught.value.code == "F102"
            downloads.discard(f"{server.url}/a")
    assert Counter(server.requests) == {b"/a": 1, b"/gone": 1}


def test_files_of_rows_that_failed_sooner_are_forgotten(server: HostileServer, tmp_path: Path) -> None:
    with closing(Downloads(str(tmp_path), DownloadOptions(allow_private=True))) as downloads:
        for window in range(40):
            downloads.announce([f"{server.url}/{window}/{number}" for number in range(8)])
            downloads.take(f"{server.url}/{window}/0")
        assert len(downloads._pending) <= 16
