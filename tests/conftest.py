"""Settings and hooks for all tests."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No deadlines, since machines differ in speed; the same examples in each run, so failures are reproducible.
settings.register_profile(
    "everywhere",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("everywhere")

# Background jobs of a shell ignore SIGINT, and child processes inherit that; tests send SIGINT to child processes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_INTEROP = Path(__file__).parent / "interop"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests in tests/interop as ``interop``."""
    for item in items:
        if item.path.is_relative_to(_INTEROP):
            item.add_marker(pytest.mark.interop)
