"""The progress bar on a terminal, for work longer than a second, and the lines in a log."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest

from energon_cli.progress import ProgressBar
from energon_cli.settings import scoped_settings


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


def run(clock: Clock, *, seconds: float, unit: str = "bytes", enabled: bool | None = None) -> None:
    with scoped_settings() as settings:
        settings.progress = enabled
        bar = ProgressBar("Scanning", unit=unit, clock=clock)
    with bar:
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


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Run ten steps without a terminal and return the lines of standard error."""

    def run_in_log(**kwargs: Any) -> list[str]:
        stream = io.StringIO()
        monkeypatch.setattr("sys.stderr", stream)
        run(Clock(), **kwargs)
        return stream.getvalue().splitlines()

    return run_in_log


def test_a_log_gets_a_line_every_30_seconds(log: Callable[..., list[str]]) -> None:
    assert log(seconds=29) == []
    assert log(seconds=80) == [  # steps of 8 s
        "Scanning: 4.0 MB of 20.0 MB (20.0 %), 125.0 kB/s, 0:02:08 left",
        "Scanning: 8.0 MB of 20.0 MB (40.0 %), 125.0 kB/s, 0:01:36 left",
    ]


def test_the_flag_asks_for_more_lines(log: Callable[..., list[str]]) -> None:
    lines = log(seconds=20, unit="shards", enabled=True)
    assert len(lines) == 3
    assert lines[0].startswith("Scanning: 3,000,000 of 20,000,000 shards (15.0 %), ")
    assert log(seconds=100, enabled=False) == []


def test_without_standard_error_nothing_is_printed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr("sys.stderr", None)
    run(clock, seconds=100)
    assert clock.now >= 100, "all steps are made"
    assert capfd.readouterr() == ("", "")


def test_the_time_before_the_first_update_does_not_count_in_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", stream := io.StringIO())
    clock = Clock()
    with ProgressBar("Checking", unit="samples", clock=clock) as bar:
        for seconds in (100, 30, 30):
            clock.now += seconds
            bar.update(clock.now - 200, 1000)
    assert stream.getvalue().splitlines()[1:] == [
        "Checking: 30 of 1,000 samples (3.0 %), 1.0 samples/s, 0:16:10 left",
        "Checking: 60 of 1,000 samples (6.0 %), 1.0 samples/s, 0:15:40 left",
    ]


def test_what_a_resumed_task_did_before_does_not_count_in_its_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr", stream := io.StringIO())
    clock = Clock()
    with ProgressBar("Scanning", unit="shards", clock=clock) as bar:
        bar.update(1000, 2000)
        clock.now += 40
        bar.update(1010, 2000)
    assert stream.getvalue() == "Scanning: 1,010 of 2,000 shards (50.5 %), 0.2 shards/s, 1:06:00 left\n"
