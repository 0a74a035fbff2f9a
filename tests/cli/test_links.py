"""Links from paths to files: only in terminals that show them, and only to what exists."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from urllib.parse import quote

import pytest

from energon_cli.console import file_url, link_places
from tests.cli.make_dataset import caption_parts, write_captions
from tests.cli.run_energon import RunEnergon
from tests.cli.terminal import TerminalRun

LINK = re.compile(r"\x1b]8;[^;]*;([^\x1b]+)\x1b\\(.*?)\x1b]8;;\x1b\\")


@pytest.fixture
def broken(tmp_path: Path, energon: RunEnergon) -> Path:
    def parts(number: int) -> dict[str, bytes]:
        return caption_parts(number) | ({"jpg": b"<!DOCTYPE html>"} if number == 4 else {})

    folder = write_captions(tmp_path / "broken ü", parts=parts)
    assert energon("prepare", folder, "--yes").code == 0
    return folder


def links(run: TerminalRun) -> dict[str, str]:
    """Return the texts of the links that a command prints, each with its URL."""
    run.finish()
    return {re.sub(r"\x1b\[[0-9;]*m", "", text): url for url, text in LINK.findall(run.raw)}


def test_a_finding_links_its_shard(broken: Path) -> None:
    with TerminalRun("lint", broken, columns=300, environment={"TERM_PROGRAM": "WezTerm"}) as run:
        found = links(run)
    [url] = [url for text, url in found.items() if text.startswith("shard_001.tar/000004 [jpg]")]
    assert url == f"file://{socket.gethostname()}{quote(str(broken / 'shard_001.tar'))}"


def test_a_finding_links_its_page_in_energon_browse(broken: Path) -> None:
    server = ("--browse", "http://127.0.0.1:8800/?token=t")
    with TerminalRun("lint", broken, *server, columns=300, environment={"TERM_PROGRAM": "WezTerm"}) as run:
        found = links(run)
    [url] = [url for text, url in found.items() if text.startswith("shard_001.tar/000004 [jpg]")]
    assert url == "http://127.0.0.1:8800/s/broken%20%C3%BC/shard_001.tar/000004?token=t"


def test_an_error_links_its_place(tmp_path: Path) -> None:
    folder = write_captions(tmp_path / "raw")
    (folder / ".nv-meta").mkdir()
    (folder / ".nv-meta" / ".info.json").write_text("{")
    with TerminalRun("preview", folder, columns=300, environment={"FORCE_HYPERLINK": "1"}) as run:
        found = links(run)
    assert any(url.startswith(f"file://{socket.gethostname()}{folder}") for url in found.values())


def test_info_links_its_path(broken: Path) -> None:
    with TerminalRun("info", broken, columns=300, environment={"VTE_VERSION": "7002"}) as run:
        assert list(links(run)) == [str(broken)]


def test_a_trace_links_its_keys_and_datasets(broken: Path) -> None:
    trace = ("trace", broken, "--step", "0", "--batch-size", "4")
    with TerminalRun(*trace, columns=300, environment={"TERM_PROGRAM": "WezTerm"}) as run:
        found = links(run)
    assert found.pop(str(broken)) == file_url(str(broken))
    assert len(found) == 4
    assert all(url == file_url(str(broken / key.partition("/")[0])) for key, url in found.items())
    with TerminalRun(*trace, columns=300, environment={"FORCE_HYPERLINK": "0"}) as run:
        assert not links(run)
        assert all(key in run.text for key in found)


@pytest.mark.parametrize(
    ("flags", "environment"),
    [
        ([], {"TERM": "dumb"}),
        pytest.param([], {"VTE_VERSION": "4999"}, marks=pytest.mark.slow),
        ([], {"FORCE_HYPERLINK": "0", "TERM_PROGRAM": "WezTerm"}),
        pytest.param([], {"FORCE_HYPERLINK": "1", "NO_COLOR": "1"}, marks=pytest.mark.slow),
        (["--color", "never"], {"FORCE_HYPERLINK": "1"}),
    ],
)
@pytest.mark.sampled(3)
def test_no_links_where_they_are_not_shown_or_not_wanted(
    broken: Path, flags: list[str], environment: dict[str, str]
) -> None:
    with TerminalRun("lint", broken, *flags, columns=300, environment=environment) as run:
        run.finish()
        assert "E302" in run.text
        assert "\x1b]8" not in run.raw


def test_no_links_in_a_pipe(broken: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_HYPERLINK", "1")
    assert "\x1b]8" not in energon("lint", broken, "--color", "always").out


def test_a_url_has_no_character_that_a_terminal_interprets(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b]8;;http:x\x07 \udc80ü"
    path.write_bytes(b"")
    url = file_url(str(path))
    assert url is not None
    assert url.isascii()
    assert url.isprintable()
    assert file_url(str(tmp_path / "missing")) is None


def test_a_place_links_the_longest_path_that_exists(tmp_path: Path) -> None:
    shard = tmp_path / "s.tar"
    shard.write_bytes(b"")
    for rest in ("", ", byte 512", "/000017"):
        message = f"cut\n  at: {shard}{rest}\n  hint: copy it"
        [(url, text)] = LINK.findall(link_places(message, message))
        assert url == file_url(str(shard))
        assert text == f"{shard}{rest}"
    for place in ("nothing here", "/", "relative/s.tar", "\0"):
        message = f"cut\n  at: {place}"
        assert link_places(message, message) == message
