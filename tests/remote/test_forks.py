"""Forks after every kind of use of a store: the child reads on; helper processes end with their parents."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loader.storage import open_storage
from tests.object_server import Fault, FaultPlan, ObjectServer
from tests.processes import is_alive, wait_until

pytestmark = pytest.mark.slow

LIMIT_S = 10

SCRIPT = """
import faulthandler, os, signal, sys, threading, time
from loader.storage import open_storage
from loader.storage.remote.clients.choice import use_rust_here

way, use = sys.argv[1:]
if way == "direct":
    use_rust_here()
storage = open_storage("s3://data/ds")
def start():
    if use == "read":
        return storage.read("x")
    if use == "listing half-way":
        pages = storage._requests.pages("many")
        return next(pages), pages
    if use == "fetches":
        file = storage.open("x")
        return [file.fetch(n, 10) for n in range(100)]
    if use == "threads":
        read_often = lambda: [storage.read("x") for _ in range(50)]
        threads = [threading.Thread(target=read_often, daemon=True) for _ in range(4)]
        [thread.start() for thread in threads]
        return threads
    if use == "http":
        return open_storage(os.environ["AWS_ENDPOINT_URL"] + "/data/ds").read("x")
    return None
used = start()
child = os.fork()
if not child:
    signal.alarm(10)
    faulthandler.dump_traceback_later(6)
    assert storage.read("x", 3, 6) == b"345", "wrong"
    if use == "fetches":
        content = b"0123456789" * 2
        assert [pending.result() for pending in used] == [content[n % 10:][:10] for n in range(100)]
    if use == "listing half-way":
        assert len(list(storage.list("many"))) == 1500
    if use == "http":
        assert open_storage(os.environ["AWS_ENDPOINT_URL"] + "/data/ds").read("x", 0, 2) == b"01"
    os._exit(0)
signal.alarm(10)
assert storage.read("x", 3, 6) == b"345"
if use == "fetches":
    assert [pending.result()[:1] for pending in used[:3]] == [b"0", b"1", b"2"]
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.fixture
def served(server: ObjectServer, tmp_path: Path) -> ObjectServer:
    folder = tmp_path / "objects/data/ds"
    (folder / "many").mkdir(parents=True)
    (folder / "x").write_bytes(b"0123456789" * 20)
    for number in range(1500):
        (folder / f"many/{number:04}").touch()
    return server


@pytest.mark.parametrize("use", ["nothing", "read", "listing half-way", "fetches", "threads", "http"])
@pytest.mark.parametrize("way", ["helper", "direct"])
def test_a_child_reads_after_a_fork(served: ObjectServer, way: str, use: str) -> None:
    served.faults = FaultPlan(latency_s=0.02)
    command = [sys.executable, "-c", SCRIPT, way, use]
    done = subprocess.run(command, timeout=60, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


HOLD = """
import os, sys, time
from loader.storage import open_storage
from loader.storage.remote.clients import helper_client

open_storage("s3://data/ds").read("x")
print(helper_client._helper._process.pid, flush=True)
if "fork" in sys.argv:
    if not os.fork():
        time.sleep(60)  # a worker that hangs holds nothing that keeps the helper alive
        os._exit(0)
    print("forked", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
@pytest.mark.parametrize("children", ["", "fork"])
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_helper_ends_with_its_parent(served: ObjectServer, ending: signal.Signals, children: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, children],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    helper = int(process.stdout.readline())
    if children:
        assert process.stdout.readline() == "forked\n"
    assert is_alive(helper)
    process.send_signal(ending)
    process.wait(timeout=LIMIT_S)
    try:
        wait_until(lambda: not is_alive(helper), timeout_s=LIMIT_S)
    finally:
        if children:
            os.killpg(process.pid, signal.SIGKILL)
        _, errors = process.communicate(timeout=LIMIT_S)
    assert errors.count("Traceback") == (ending == signal.SIGINT)  # that of the parent alone


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
def test_ctrl_c_at_a_terminal_ends_the_parent_without_a_message_of_the_helper(served: ObjectServer) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    helper = int(process.stdout.readline())
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=LIMIT_S)
    assert errors.count("Traceback") == 1
    wait_until(lambda: not is_alive(helper), timeout_s=LIMIT_S)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
def test_a_helper_that_was_killed_is_replaced_and_leaves_no_zombie(served: ObjectServer) -> None:
    from loader.storage.remote.clients import helper_client

    storage = open_storage("s3://data/ds")
    assert storage.read("x")[:3] == b"012"
    killed = helper_client._current()._process.pid
    os.kill(killed, signal.SIGKILL)
    assert storage.read("x")[:3] == b"012"
    assert helper_client._current()._process.pid != killed
    wait_until(lambda: not Path(f"/proc/{killed}").exists(), timeout_s=LIMIT_S)


def _read_in_worker(queue: multiprocessing.Queue[bytes], environment: dict[str, str]) -> None:
    os.environ.update(environment)  # a forkserver has the environment of the test that started it
    queue.put(open_storage("s3://data/ds").read("x"))


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_workers_of_every_kind_read(served: ObjectServer, method: str) -> None:
    content = open_storage("s3://data/ds").read("x")
    context: Any = multiprocessing.get_context(method)
    queue = context.Queue()
    workers = [context.Process(target=_read_in_worker, args=(queue, dict(os.environ))) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert [queue.get(timeout=30) for _ in workers] == [content] * 2
    for worker in workers:
        worker.join(timeout=10)
        assert worker.exitcode == 0


def test_a_helper_does_not_take_another_package_of_the_same_name(
    served: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loader.py").write_text("raise SystemExit('this is of the user')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    served.faults = FaultPlan(faults=[Fault(kind="503", requests=[0])])
    assert open_storage("s3://data/ds").read("x")[:3] == b"012"
