"""What holds for every test."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Machines differ in speed, so no example fails for being slow; and a failure seen once is seen again.
settings.register_profile(
    "everywhere",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("everywhere")

# A shell lets what it starts in the background ignore Ctrl-C, and so would every process that a test starts and stops.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_INTEROP = Path(__file__).parent / "interop"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in tests/interop, so that no file there can forget to."""
    for item in items:
        if item.path.is_relative_to(_INTEROP):
            item.add_marker(pytest.mark.interop)
