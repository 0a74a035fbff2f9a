"""The progress bar: only on a terminal, and only for work longer than a second."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest

from energon_cli.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run ten steps on a terminal and return its output."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")

    def run_on_terminal(**kwargs: Any) -> str:
        stream = Terminal()
        monkeypatch.setattr("sys.stderr", stream)  # here, since pytest replaces stderr in each phase
        run(Clock(), **kwargs)
        return stream.getvalue()

    return run_on_terminal


def run(clock: Clock, *, seconds: float, unit: str = "bytes", enabled: bool = True) -> None:
    with ProgressBar("Scanning", unit=unit, enabled=enabled, clock=clock) as bar:
        for step in range(1, 11):
            clock.now += seconds / 10
            bar.update(step * 1_000_000, 20_000_000)


def test_short_work_shows_nothing(show: Callable[..., str]) -> None:
    assert show(seconds=0.9) == ""


def test_longer_work_shows_progress_and_cleans_up(show: Callable[..., str]) -> None:
    raw = show(seconds=20)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", raw)
    assert "Scanning" in text
    assert "10.0/20.0 MB" in text
    assert "500.0 kB/s" in text
    assert "0:00:20" in text
    assert raw.endswith("\x1b[2K"), "the bar is wiped at the end"


def test_counts_have_a_rate(show: Callable[..., str]) -> None:
    assert "500,000 samples/s" in show(seconds=20, unit="samples")


def test_no_progress_shows_nothing(show: Callable[..., str]) -> None:
    assert show(seconds=20, enabled=False) == ""


def test_a_pipe_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    run(Clock(), seconds=20)
    assert stream.getvalue() == ""
