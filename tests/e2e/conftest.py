"""Fixtures of the tests that prepare real folders."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace fsync, which takes most of a test's time on some disks; no test here needs it."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
