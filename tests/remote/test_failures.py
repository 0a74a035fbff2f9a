"""The failure policy: what is tried again, how often, and what ends a run; numbers of requests are exact."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from loader.errors import FormatError, StorageError
from loader.storage import FileInfo, Storage, open_storage
from loader.storage.remote import remember_options
from loader.storage.remote.clients.connection import Retries, few_tries
from loader.storage.remote.failures import Remedy, RequestFailure
from loader.storage.remote.fetcher import Fetch, Fetcher, Pace
from loader.storage.remote.listed_folders import ListedFolders
from loader.storage.remote.options import OPTIONS_VARIABLE
from tests.object_server import Fault, FaultPlan, ObjectServer

from .conftest import SECRET_KEY

CONTENT = bytes(range(256)) * 8


@pytest.fixture
def storage(server: ObjectServer, direct: None, monkeypatch: pytest.MonkeyPatch) -> Storage:
    monkeypatch.setenv(OPTIONS_VARIABLE, "{}")
    monkeypatch.delenv("ENERGON_CACHE_DIR")  # each read is a request
    remember_options("s3://data", {"stall_s": 0.5, "deadline_s": 20})
    found = open_storage("s3://data/ds")
    with found.create("x") as file:
        file.write(CONTENT)
    server.start_again()
    return found


def gets(server: ObjectServer) -> int:
    return sum(request.method == "GET" for request in server.requests)


PASSING = ("503", "500", "429", "408", "reset", "reset in body", "short body", "stall", "whole object", "wrong range")


@pytest.mark.parametrize("kind", PASSING)
def test_a_fault_that_passes_costs_one_more_request(storage: Storage, server: ObjectServer, kind: str) -> None:
    server.faults = FaultPlan(faults=[Fault(kind=kind, key="ds/x", requests=[0])])
    assert storage.read("x", 10, 500) == CONTENT[10:500]
    assert gets(server) == 2


@pytest.mark.parametrize("kind", ["503", "reset"])
def test_a_listing_that_fails_goes_on(storage: Storage, server: ObjectServer, kind: str) -> None:
    server.faults = FaultPlan(faults=[Fault(kind=kind, requests=[0])])
    assert [info.name for info in storage.list()] == ["x"]


@pytest.mark.parametrize(("kind", "tries"), [("whole object", 3), ("wrong range", 3)])
def test_a_server_that_answers_no_ranges_is_given_up_soon(
    storage: Storage, server: ObjectServer, kind: str, tries: int
) -> None:
    server.faults = FaultPlan(faults=[Fault(kind=kind)])
    with pytest.raises(StorageError, match="with other bytes"):
        storage.read("x", 10, 500)
    assert gets(server) == tries


@pytest.mark.parametrize("kind", ["401", "403"])
def test_denied_access_is_tried_once_with_new_credentials(storage: Storage, server: ObjectServer, kind: str) -> None:
    server.faults = FaultPlan(faults=[Fault(kind=kind, requests=[0])])
    assert storage.read("x", 0, 9) == CONTENT[:9]
    server.faults = FaultPlan(faults=[Fault(kind=kind)])
    server.requests.clear()
    for action in (lambda: storage.read("x", 0, 9), lambda: list(storage.list())):
        server.requests.clear()
        with pytest.raises(StorageError, match=kind) as caught:
            action()
        assert len(server.requests) == 2
        assert "AWS_ACCESS_KEY_ID" in str(caught.value)
        assert SECRET_KEY not in str(caught.value)


def test_a_missing_or_changed_object_is_not_tried_again(storage: Storage, server: ObjectServer) -> None:
    info = storage.stat("x")
    server.start_again()
    with pytest.raises(StorageError, match="does not exist") as caught:
        storage.read("gone", 0, 9)
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    with pytest.raises(FormatError, match="it is shorter now"):
        storage.read("x", 5000, 6000)
    server.faults = FaultPlan(faults=[Fault(kind="changed etag")])
    with storage.open("x", info) as file, pytest.raises(FormatError, match="changed while it was read"):
        file.read_at(0, 9)
    assert gets(server) == 3 + 4  # the last ones look whether two versions alternate


def test_an_error_names_url_range_tries_and_time(storage: Storage, server: ObjectServer) -> None:
    remember_options("s3://data", {"deadline_s": 0.2})
    server.faults = FaultPlan(faults=[Fault(kind="503")])
    with pytest.raises(StorageError) as caught:
        storage.read("x", 10, 500)
    text = str(caught.value)
    assert "cannot read bytes 10–500 of" in text
    assert "503 SlowDown after" in text
    assert "s3://data/ds/x" in text
    assert "tries in" in text
    assert gets(server) >= 3
    assert isinstance(caught.value.__cause__, OSError)  # ends a run, whatever its error handlers do


def test_a_service_that_never_answered_is_given_up_soon(direct: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loader.storage.remote.clients.connection._CONTACT_S", 1.0)
    with pytest.raises(StorageError, match=r"cannot reach http://127\.0\.0\.1:9: the connection was refused") as caught:
        open_storage("s3://data/ds").read("x")
    assert "AWS_ENDPOINT_URL" in str(caught.value)


def test_a_host_without_a_name_is_named(direct: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loader.storage.remote.clients.connection._CONTACT_S", 0.1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://me:secret@nowhere.invalid")
    with pytest.raises(StorageError, match=r"cannot reach http://nowhere\.invalid") as caught:
        open_storage("s3://data/ds").read("x")
    assert "secret" not in str(caught.value)


def test_an_outage_is_survived_with_a_longer_deadline(
    storage: Storage, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "loader.storage.remote.clients.connection._CONTACT_S", 0.1
    )  # not for a service that has answered
    server.faults = FaultPlan(faults=[Fault(kind="reset", requests=range(6))])
    assert storage.read("x", 0, 9) == CONTENT[:9]
    assert gets(server) == 7


def test_a_write_whose_answer_is_lost_happens_once(storage: Storage, server: ObjectServer) -> None:
    server.faults = FaultPlan(faults=[Fault(kind="dropped put", method="PUT", requests=[0])])
    etag = storage.put("new", b"mine", if_absent=True)  # type: ignore[attr-defined]
    assert etag == storage.stat("new").etag
    server.start_again()
    server.faults = FaultPlan(faults=[Fault(kind="reset", method="PUT", requests=[0])])
    with pytest.raises(StorageError, match="it exists"):
        storage.put("new", b"other", if_absent=True)  # type: ignore[attr-defined]
    assert storage.read("new") == b"mine"


# ------------------------------------------------------------------------------------------------- the clock of retries


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def failing(times: int, failure: RequestFailure, clock: Clock | None = None) -> Callable[[], str]:
    outcomes: Iterator[bool] = iter([False] * times + [True] * 1000)

    def attempt() -> str:
        if clock:
            clock.now += 0.5
        if not next(outcomes):
            raise failure
        return "done"

    return attempt


LATER = RequestFailure("503 SlowDown", Remedy.SLOW_DOWN)


def retries(clock: Clock, deadline_s: float = 300.0) -> Retries:
    return Retries(deadline_s, clock=lambda: clock.now, sleep=clock.sleep)


@pytest.mark.parametrize("kind", ["unreachable", "slow", "broken"])
def test_commands_give_up_a_service_that_never_answered_after_three_tries(kind: str) -> None:
    failure = RequestFailure("no answer", Remedy.RETRY, kind=kind)

    def tries(*, has_answered: bool) -> int:
        clock = Clock()
        policy = replace(retries(clock), has_answered=lambda: has_answered)
        with pytest.raises(StorageError, match="no answer after"):
            policy.run(failing(1000, failure, clock), action="read", url="https://host.example/x")
        return len(clock.pauses) + 1

    with few_tries():
        assert tries(has_answered=False) == 3
        assert tries(has_answered=True) > 20
    assert tries(has_answered=False) > 5, "runs of training are patient"


def test_a_service_that_asks_for_more_patience_than_the_deadline_is_given_up() -> None:
    clock = Clock()
    failure = RequestFailure("503", Remedy.SLOW_DOWN, retry_after_s=86400.0)
    with pytest.raises(StorageError, match="503"):
        retries(clock, 5.0).run(failing(1, failure), action="read", url="s3://b/x")
    assert not clock.pauses


def test_without_more_threads_those_that_run_fetch_all(monkeypatch: pytest.MonkeyPatch) -> None:
    fetcher = Fetcher(2)
    start = threading.Thread.start

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(5):
        with pytest.raises(RuntimeError, match="can't start"):
            Fetch(fetcher, lambda _: b"x", 1)
    monkeypatch.setattr(threading.Thread, "start", start)
    first = Fetch(fetcher, lambda _: b"1", 1)
    assert first.result() == b"1"
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert [one.result() for one in [Fetch(fetcher, lambda _: b"2", 1) for _ in range(5)]] == [b"2"] * 5


def test_a_folder_that_is_listed_again_is_known_as_it_is_now() -> None:
    listed = ListedFolders()
    old, new = (FileInfo(name="f/x", size_bytes=size, mtime_ns=0) for size in (1, 2))
    listed.add("", [old])
    listed.note_written("f/x")
    assert listed.of("f/x") is None
    listed.add("f", [new])
    assert listed.of("f/x") == {"f/x": new}


def test_a_file_written_into_a_hidden_folder_leaves_the_listing_of_its_parents_known() -> None:
    listed = ListedFolders()
    names = [".nv-meta/.prepare/scans/a", ".nv-meta/index.uuid", ".nv-meta/split.yaml"]
    listed.add("", [FileInfo(name=name, size_bytes=1, mtime_ns=0) for name in names])
    listed.note_written(".nv-meta/.prepare/scans/b")

    def visible(folder: str) -> list[str] | None:
        found = listed.visible(folder)
        return None if found is None else [file.name for file in found]

    assert visible(".nv-meta") == names[1:]
    assert visible("") == []
    assert visible(".nv-meta/.prepare") is None
    assert [listed.has(name) for name in (".nv-meta", names[0], ".nv-meta/.prepare/scans/b")] == [True, True, None]
    listed.note_written(".nv-meta/index.uuid")
    assert visible(".nv-meta") is None
    listed.note_written(".nv-meta/split.yaml")
    listed.note_written(names[0])
    assert listed.has(".nv-meta") is None
    assert listed.has("other") is False


def test_pauses_are_drawn_from_a_growing_range() -> None:
    drawn = []
    for _ in range(200):
        clock = Clock()
        assert retries(clock).run(failing(12, LATER), action="read", url="s3://b/x") == "done"
        drawn.append(clock.pauses)
    for number, pauses in enumerate(zip(*drawn, strict=True), start=1):
        limit = min(15.0, 0.1 * 2**number)
        assert max(pauses) <= limit
        assert max(pauses) > 0.8 * limit
        assert min(pauses) < 0.2 * limit


def test_the_pause_that_a_service_requests_is_made() -> None:
    clock = Clock()
    failure = RequestFailure("429", Remedy.SLOW_DOWN, retry_after_s=7.0)
    assert retries(clock).run(failing(2, failure), action="read", url="s3://b/x") == "done"
    assert clock.pauses == [7.0, 7.0]


def test_a_deadline_ends_the_tries_but_not_before_the_third() -> None:
    clock = Clock()
    with pytest.raises(StorageError, match=r"503 SlowDown after \d+ tries in 300 s"):
        retries(clock).run(failing(10_000, LATER, clock), action="read", url="s3://b/x")
    clock = Clock()
    with pytest.raises(StorageError, match="after 3 tries"):
        retries(clock, deadline_s=0.01).run(failing(10_000, LATER, clock), action="read", url="s3://b/x")


def test_a_warning_comes_after_ten_seconds_and_then_every_thirty(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    at: list[float] = []

    class Times(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            at.append(clock.now)

    handler = Times()
    logging.getLogger("loader.storage.remote.clients.connection").addHandler(handler)
    try:
        with pytest.raises(StorageError):
            retries(clock).run(failing(10_000, LATER, clock), action="read bytes 0–9 of", url="s3://b/x")
    finally:
        logging.getLogger("loader.storage.remote.clients.connection").removeHandler(handler)
    assert 10 <= at[0] <= 26
    assert all(30 <= later - earlier <= 46 for earlier, later in pairwise(at))
    assert "cannot read bytes 0–9 of s3://b/x: 503 SlowDown; " in caplog.text


# ------------------------------------------------------------------------------------------------------- concurrency


def test_requests_at_a_time_are_halved_on_slow_down_and_grow_again() -> None:
    pace = Pace(64)

    started = [pace.begin() for _ in range(5)]
    for each in started:  # the answers to requests of one moment count once
        pace.end(each, LATER)
    assert pace.limit == 32
    for _ in range(32):
        pace.end(pace.begin(), None)
    assert 32.9 < pace.limit < 33.1
    for _ in range(5000):
        pace.end(pace.begin(), None)
    assert pace.limit == 64


@pytest.mark.parametrize(("every", "least", "most"), [(100, 48, 64), (8, 1, 16)])
def test_single_refusals_leave_the_limit_and_many_lower_it(every: int, least: int, most: int) -> None:
    pace, limits, choice = Pace(64), [], random.Random(1)
    for _ in range(20_000):
        pace.end(pace.begin(), LATER if choice.randrange(every) == 0 else None)
        limits.append(pace.limit)
    assert least <= sum(limits) / len(limits) <= most


def test_a_stalled_request_that_was_sent_again_takes_no_place() -> None:
    pace = Pace(1)
    stalled = pace.begin()
    pace.note_stalled(1)
    again = threading.Thread(target=pace.begin, daemon=True)
    again.start()
    again.join(10)
    assert not again.is_alive(), "the stalled request still takes the place"
    pace.end(stalled, None)
    pace.note_stalled(-1)
    third = threading.Thread(target=pace.begin, daemon=True)
    third.start()
    third.join(0.2)
    assert third.is_alive(), "two requests are open"
    pace.end(0.0, None)
    third.join(10)
    assert not third.is_alive()


def test_a_service_that_takes_few_requests_gets_few(storage: Storage, server: ObjectServer) -> None:
    slow = 0

    def choose(method: str, key: str, number: int) -> Fault | None:
        nonlocal slow
        if server._open > 8:
            slow += 1
            return Fault(kind="503")
        return None

    server.faults = FaultPlan(choose=choose, latency_s=0.02)
    with storage.open("x") as file:
        pending = [file.fetch(start % 2000, 16) for start in range(600)]
        assert all(
            one is not None and one.result() == CONTENT[start % 2000 :][:16] for start, one in enumerate(pending)
        )
    assert slow < 300  # of 600, where each open request above the limit of 8 would be refused


def test_a_late_request_is_sent_twice_and_no_other(storage: Storage, server: ObjectServer) -> None:
    late = {90, 150}
    server.faults = FaultPlan(faults=[Fault(kind="delay", method="GET", requests=sorted(late), delay_s=8.0)])
    info = storage.stat("x")
    server.requests.clear()
    with storage.open("x", info) as file:
        for start in range(200):
            pending = file.fetch(start, 16)
            assert pending is not None
            assert pending.result() == CONTENT[start : start + 16]
    assert gets(server) == 202


def test_a_stalled_request_that_was_sent_twice_is_given_up(storage: Storage, server: ObjectServer) -> None:
    remember_options("s3://data", {"stall_s": 1.0, "max_requests": 1})
    info = storage.stat("x")
    server.start_again()
    server.faults = FaultPlan(faults=[Fault(kind="stall", requests=[40])])
    with storage.open("x", info) as file:
        pending = [file.fetch(start, 16) for start in range(80)]
        for start, one in enumerate(pending):
            assert one is not None
            assert one.result() == CONTENT[start : start + 16]
    assert server.most_open == 2  # the others did not wait for the stalled one
    time.sleep(1.5)
    (stalled,) = (request for request in server.requests if request.fault == "stall")
    assert sum(request.range == stalled.range for request in server.requests) == 2


def test_a_service_that_is_slow_for_all_gets_no_second_requests(storage: Storage, server: ObjectServer) -> None:
    info = storage.stat("x")
    with storage.open("x", info) as file:

        def read(count: int) -> None:
            for start in range(count):
                pending = file.fetch(start, 16)
                assert pending is not None
                assert pending.result() == CONTENT[start : start + 16]

        read(100)
        server.faults = FaultPlan(latency_s=0.3)
        server.requests.clear()
        read(20)
    assert gets(server) <= 23  # 3 % of 120
