"""The progress bar: only on a terminal, only for work that lasts."""

from __future__ import annotations

import io
import re

import pytest

from energon_cli.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    return stream


def run(clock, *, seconds, unit="bytes", enabled=True):
    with ProgressBar("Scanning", unit=unit, enabled=enabled, clock=clock) as bar:
        for step in range(1, 11):
            clock.now += seconds / 10
            bar.update(step * 1_000_000, 20_000_000)


def test_short_work_shows_nothing(terminal):
    run(Clock(), seconds=0.9)
    assert terminal.getvalue() == ""


def test_longer_work_shows_how_far_it_is_and_cleans_up(terminal):
    run(Clock(), seconds=20)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    assert "Scanning" in text
    assert "10.0/20.0 MB" in text
    assert re.search(r"\d[\d.]* [kM]?B/s", text)
    assert terminal.getvalue().rstrip("\r").endswith("\x1b[2K"), "the bar is wiped at the end"


def test_counts_have_a_rate_too(terminal):
    run(Clock(), seconds=20, unit="samples")
    assert "samples/s" in terminal.getvalue()


def test_no_progress_shows_nothing(terminal):
    run(Clock(), seconds=20, enabled=False)
    assert terminal.getvalue() == ""


def test_a_pipe_shows_nothing(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    run(Clock(), seconds=20)
    assert stream.getvalue() == ""
