"""Settings and hooks for all tests."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from functools import wraps
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from loader.engine import workers as worker_pool
from loader.storage.remote.clients import choice
from tests.cheap_forks import prepare_forks
from tests.forked_scripts import ForkedScripts, forked_scripts

# No deadlines, since machines differ in speed; the same examples in each run, so failures are reproducible.
settings.register_profile(
    "everywhere",
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("thorough", settings.get_profile("everywhere"), max_examples=200)  # make test-all
settings.load_profile("everywhere")

# Background jobs of a shell ignore SIGINT, and child processes inherit that; tests send SIGINT to child processes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Several processes of tests share the cores: more threads of torch would only wait for each other, in busy loops.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Each of pytest's workers reads all test files, and tests start hundreds of programs: byte code halves that work.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

_SECONDS_A_TEST = 0.04  # of one core: 13,600 tests take about four and a half minutes on two cores of 2024
_FOLDERS = count()
_PROCESS = os.getpid()

# Commands draw with ASCII alone in other locales, and tests of terminals expect lines and arrows.
os.environ["LC_ALL"] = "C.UTF-8"

gc.disable()  # until all tests are collected: what is imported and collected stays


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """End a fork that a test left running, which would continue with the tests of its parent and report them, too."""
    if os.getpid() != _PROCESS:
        os.write(2, f"\n{report.nodeid} left a fork running:\n{report.longreprtext}\n".encode())
        os._exit(1)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Fail a test that leaves a hook context behind, in which later tests would run; forget the failures it logged."""
    # A process logs few failures of a cause, and tests of one file have causes in common.
    handlers: Any = sys.modules.get("loader.pipeline.failures.error_handlers")
    if handlers is not None:
        handlers._times.clear()
    hooks: Any = sys.modules.get("loader.samples.hooks")
    if hooks is not None and hooks.running_hook_context() is not None:
        hooks.set_hook_context(None)
        raise AssertionError(f"{item.name} leaves a hook context behind")


def pytest_collection_finish() -> None:
    """Exempt the thousands of collected tests from garbage collection, which the code under test starts often."""
    prepare_forks()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Announce how many tests there are before the first of them runs."""
    if node.gateway.id == "gw0":
        cores = os.cpu_count() or 1
        minutes = max(1, round(len(ids) * _SECONDS_A_TEST / cores / 60))
        print(f"\n{len(ids):,} tests, about {minutes} minutes on {cores} cores", flush=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests in tests/interop as ``interop``, and the cases of sampled tests that are not quick as ``slow``."""
    cases: Counter[str] = Counter()
    for item in items:
        if item.nodeid.startswith("tests/interop/"):
            item.add_marker(pytest.mark.interop)
        sampled = item.get_closest_marker("sampled")
        if sampled is not None and item.get_closest_marker("slow") is None:
            function = item.nodeid.partition("[")[0]
            if cases[function] % sampled.args[0]:
                item.add_marker(pytest.mark.slow)
            cases[function] += 1


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replace pytest's fixture, which lists the folders of all earlier tests to find a number for the next one."""
    name = re.sub(r"\W", "_", request.node.name)[:27]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(_FOLDERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(scope="session", autouse=True)
def index_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the indexes of read-only data away from those of the user who runs the tests."""
    os.environ["ENERGON_INDEX"] = str(tmp_path_factory.mktemp("indexes"))


@pytest.fixture(autouse=True)
def helper_processes() -> Iterator[None]:
    """Let later tests send requests through helper processes, after a command that ran in the process of a test."""
    yield
    choice._is_told = False


@pytest.fixture(scope="session", autouse=True)
def forked_pools() -> Iterator[None]:
    """Fork the workers of commands that run in the process of a test, as those of a program are.

    Other threads of pytest and torch would make them spawned, which takes ten times as long.
    """
    original = worker_pool._has_one_thread
    with pytest.MonkeyPatch.context() as patch:
        has_one_thread = wraps(original)(lambda: threading.current_thread() is threading.main_thread())
        patch.setattr(worker_pool, "_has_one_thread", has_one_thread)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Replace fsync, which takes most of a test's time on some disks; tests of durable files replace it themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        yield


@pytest.fixture(scope="session")
def scripts() -> Iterator[ForkedScripts]:
    with forked_scripts() as scripts:
        yield scripts


@pytest.fixture(scope="session")
def lightning() -> Any:
    """Models and trainers of Lightning, which takes seconds to import: not for those who only collect tests."""
    return import_module("tests.e2e.lightning_parts")
