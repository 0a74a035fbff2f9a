"""Output on terminals and pipes: data is escaped, and piped text is plain."""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from rich.console import Console

from energon_cli.console import error_console, json_line, output_console, print_json
from loader.errors import escape_controls
from loader.inspect import format_bytes, plural


@dataclass(frozen=True, slots=True)
class Facts:
    size: tuple[int, Path]
    name: str | None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(st.text(alphabet=st.characters(codec=None)))
def test_no_control_character_survives(text: str) -> None:
    escaped = escape_controls(text)
    assert not [c for c in escaped if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")]
    escaped.encode("utf-8")


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S", "Zs"))))
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert escape_controls(text) == text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a\nb", "a\\nb"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202excod.exe", "abc\\u202excod.exe"),
        (b"caf\xe9".decode("utf-8", "surrogateescape"), "caf\\xe9"),
    ],
)
def test_escapes_are_readable(text: str, escaped: str) -> None:
    assert escape_controls(text) == escaped


def test_kept_characters_are_kept() -> None:
    assert escape_controls("a\nb\x1b", keep="\n") == "a\nb\\x1b"


@pytest.mark.parametrize("make", [output_console, error_console])
def test_a_terminal_gets_colours_and_a_pipe_does_not(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], Console]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    name = "stdout" if make is output_console else "stderr"
    seen = {}
    for kind, stream in (("terminal", Terminal()), ("pipe", io.StringIO())):
        monkeypatch.setattr(f"sys.{name}", stream)
        make().print("text", style="red")
        seen[kind] = stream.getvalue()
    assert "\x1b[31m" in seen["terminal"]
    assert seen["pipe"] == "text\n"


def test_no_color_is_respected_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    output_console().print("text", style="red")
    assert stream.getvalue() == "text\n"


def test_square_brackets_in_data_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    output_console().print("json[caption] [red]:smile:")
    assert stream.getvalue() == "json[caption] [red]:smile:\n"


def test_json_prints_names_that_are_not_utf8(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"key": "caf\udce9"})
    assert json.loads(capsys.readouterr().out) == {"key": "caf\udce9"}


@pytest.mark.parametrize(
    "document",
    [
        [1e300, 1e-7, -0.0, 10**40, True, None],
        {"a": [], "b": {}, "c": [[], {"d": '\u2028"\\/é\x7f'}]},
        [float("nan"), "caf\udce9"],
        "text",
    ],
)
def test_json_has_the_indents_of_the_standard_library(document: Any, capsys: pytest.CaptureFixture[str]) -> None:
    print_json(document)
    assert capsys.readouterr().out == json.dumps(document, indent=2) + "\n"


def test_json_of_dataclasses_is_that_of_their_fields() -> None:
    assert json_line([Facts(size=(3, Path("x")), name=None)]) == '[{"size": [3, "x"], "name": null}]'


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (5e12, "5.0 TB"),
        (7e15, "7.0 PB"),
    ],
)
def test_sizes_keep_a_digit_before_the_point(size: float, text: str) -> None:
    assert format_bytes(size) == text


def test_plurals() -> None:
    assert [plural(n, "shard") for n in (0, 1, 2000)] == ["0 shards", "1 shard", "2,000 shards"]
