"""What holds for the tests that prepare real folders."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """No power cut is tested here, and on some disks fsync takes most of a test's time."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
