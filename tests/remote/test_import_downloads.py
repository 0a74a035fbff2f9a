"""Imports of tables with URLs: nothing is fetched unless it is allowed, each file once, and dead hosts are given up."""

from __future__ import annotations

import io
import json
import socket
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from energon_cli.main import main
from loader.storage.remote import fetched_files
from loader.storage.remote.options import OPTIONS_VARIABLE
from tests.cli.terminal import DOWN, ENTER, ESCAPE, TerminalRun
from tests.hostile_server import HostileServer, endless, whole
from tests.object_server import ObjectServer


def picture(color: int = 0) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 4), (color, 0, 0)).save(file, "PNG")
    return file.getvalue()


PNG = picture()


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0})


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer({"": whole(PNG)}) as server:
        yield server


@pytest.fixture
def dead_port() -> Iterator[int]:
    with socket.socket() as bound:  # it does not listen
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def write_table(path: Path, urls: list[str]) -> str:
    path.write_text("\n".join(["url,caption", *(f'"{url}",caption {row}' for row, url in enumerate(urls)), ""]))
    return str(path)


def energon(*arguments: str | Path, expected: int = 0) -> str:
    """Run ``energon import``; return what it prints, which holds no query."""
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = main(["import", *map(str, arguments)])
    text = output.getvalue()
    assert code == expected, text
    assert "planted" not in text
    return text


def failures_of(folder: Path) -> list[dict[str, str]]:
    text = (folder / ".nv-meta/import_failures.jsonl").read_text()
    assert "planted" not in text
    return [json.loads(line) for line in text.splitlines()]


def members(folder: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as tar:
            found |= {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    return found


DOWNLOAD = ("--yes", "--download", "--allow-private")


@pytest.mark.parametrize("options", [["--yes"], ["--dry-run"], ["--non-interactive"], []])
def test_nothing_is_fetched_or_written_unless_downloads_are_allowed(
    server: HostileServer, tmp_path: Path, options: list[str]
) -> None:
    if options == ["--non-interactive"]:
        options = ["--yes", "--json"]
    table = write_table(tmp_path / "t.csv", [f"{server.url}/{row}.png?sig=planted" for row in range(20)])
    done = energon(table, tmp_path / "out", *options, expected=2)
    assert "column 'url' names 20 files by URL, on 1 host such as http://127.0.0.1" in done
    assert "--download" in done
    assert "--keep-urls" in done
    assert server.connections == 0
    assert not (tmp_path / "out").exists()


def test_urls_are_kept_as_text(server: HostileServer, tmp_path: Path) -> None:
    url = f"{server.url}/a.png?sig=secret"
    table = write_table(tmp_path / "t.csv", [url] * 12)
    energon(table, tmp_path / "out", "--yes", "--keep-urls")
    found = members(tmp_path / "out")
    assert json.loads(found["000000000.json"]) == {"url": url}
    assert found["000000000.txt"] == b"caption 0"
    assert server.connections == 0
    assert "omit one" in energon(table, tmp_path / "b", "--keep-urls", "--download", expected=2)


def test_each_file_is_fetched_once(server: HostileServer, tmp_path: Path) -> None:
    urls = [f"{server.url}/{row}.png?sig=planted&n={row}" for row in range(300)]
    server.answers |= {f"/{row}.png": whole(picture(row % 256)) for row in range(300)}
    server.answers["/7.png"] = whole(b"", status="404 Not Found")
    options = [*DOWNLOAD, "--max-failures", "1", "--samples-per-shard", "100", "--num-workers", "2"]
    energon(write_table(tmp_path / "t.csv", urls), tmp_path / "out", *options)
    assert Counter(server.requests) == {f"/{row}.png?sig=planted&n={row}".encode(): 1 for row in range(300)}
    found = members(tmp_path / "out")
    assert {name: data for name, data in found.items() if name.endswith("png")} == {
        f"{row:09d}.png": picture(row % 256) for row in range(300) if row != 7
    }
    [failure] = failures_of(tmp_path / "out")
    assert (failure["code"], failure["origin"]) == ("F102", "t.csv, line 9")
    assert "/7.png?…" in failure["reason"]


def test_a_dry_run_fetches_at_most_the_first_files_and_each_once(server: HostileServer, tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", [f"{server.url}/{row}.png" for row in range(300)])
    energon(table, tmp_path / "out", "--dry-run", "--download", "--allow-private")
    assert 100 <= len(server.requests) == len(set(server.requests)) <= 200
    assert not (tmp_path / "out").exists()


def test_a_private_address_fails_its_row_and_never_becomes_text(server: HostileServer, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    table = write_table(tmp_path / "t.csv", ["a.png"] * 30 + [f"{server.url}/b.png?sig=planted"])
    energon(table, tmp_path / "out", "--yes", "--download", "--max-failures", "1", "--part", "png=url")
    [failure] = failures_of(tmp_path / "out")
    assert failure["code"] == "F107"
    assert f"127.0.0.1 is a private address ({server.url}/b.png?…)" in failure["reason"]
    assert len(members(tmp_path / "out")) == 30
    assert server.connections == 0


def test_a_url_among_paths_fails_its_row_while_urls_are_kept(server: HostileServer, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    table = write_table(tmp_path / "t.csv", ["a.png"] * 30 + [f"{server.url}/b.png?sig=planted"])
    energon(table, tmp_path / "out", "--yes", "--keep-urls", "--max-failures", "1", "--part", "png=url")
    assert [failure["code"] for failure in failures_of(tmp_path / "out")] == ["F106"]
    assert server.connections == 0


def test_a_file_is_larger_than_allowed(server: HostileServer, tmp_path: Path) -> None:
    server.answers["/large.png"] = whole(b"x" * 3000)
    server.answers["/endless.png"] = endless(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"x" * 1000)
    urls = [f"{server.url}/{name}.png" for name in ("a", "b", "large", "endless")]
    options = [*DOWNLOAD, "--max-size", "2000B", "--max-failures", "2"]
    energon(write_table(tmp_path / "t.csv", urls), tmp_path / "out", *options)
    large, endless_one = failures_of(tmp_path / "out")
    assert {large["code"], endless_one["code"]} == {"F108"}
    assert "it has 3,000 bytes, more than 2,000" in large["reason"]
    assert "it has more than 2,000 bytes" in endless_one["reason"]
    assert len(server.requests) == 4


def test_a_dead_host_is_given_up_and_each_of_its_rows_named(
    server: HostileServer, tmp_path: Path, dead_port: int
) -> None:
    dead = f"http://127.0.0.1:{dead_port}"
    urls = [f"{dead if row % 2 else server.url}/{row}.png?sig=planted" for row in range(400)]
    table = write_table(tmp_path / "t.csv", urls)
    energon(table, tmp_path / "out", *DOWNLOAD, "--max-failures", "100%")
    failures = failures_of(tmp_path / "out")
    codes = Counter(failure["code"] for failure in failures)
    assert codes.total() == 200
    assert codes["F109"] >= 190
    assert all("refused" in failure["reason"] and dead in failure["reason"] for failure in failures)
    assert len(members(tmp_path / "out")) == 400
    done = energon(table, tmp_path / "b", *DOWNLOAD, expected=1)
    assert "200 of 400 samples failed; at most 1% may fail" in done
    assert f"{dead}: 200 rows, 3 requests in a row failed" in done
    assert not list((tmp_path / "b").glob("*.tar"))


def test_a_silent_host_is_asked_three_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTIONS_VARIABLE, '{"": {"stall_s": 0.3}}')
    with HostileServer({"": list}) as silent:
        table = write_table(tmp_path / "t.csv", [f"{silent.url}/{row}.png" for row in range(500)])
        done = energon(table, tmp_path / "out", *DOWNLOAD, "--max-failures", "100%", expected=1)
        assert "none of the first 500 samples can be read" in done
        assert 3 <= len(silent.requests) <= 6  # the first rows at a time, and what was sent again meanwhile
        failures = failures_of(tmp_path / "out")
        assert len(failures) == 500
        assert all("no byte arrived in time" in failure["reason"] for failure in failures)
        silent.answers[""] = whole(PNG)
        monkeypatch.delenv(OPTIONS_VARIABLE)
        energon(table, tmp_path / "out", *DOWNLOAD)  # the same folder, when the host is back
        assert not (tmp_path / "out/.nv-meta/import_failures.jsonl").exists()


def test_a_host_that_answers_no_more_is_given_up_later(server: HostileServer, tmp_path: Path) -> None:
    server.answers |= {"": lambda: [b"nonsense\r\n\r\n"]} | {f"/{row}.png": whole(PNG) for row in range(150)}
    table = write_table(tmp_path / "t.csv", [f"{server.url}/{row}.png" for row in range(1000)])
    energon(table, tmp_path / "out", *DOWNLOAD, "--max-failures", "100%")
    assert 150 + fetched_files._MISSES_AFTER_ANSWERS <= len(server.requests) < 250
    assert len(members(tmp_path / "out")) == 300
    assert Counter(failure["code"] for failure in failures_of(tmp_path / "out"))["F109"] > 700


def test_an_import_ends_within_a_shard_when_too_many_rows_fail(server: HostileServer, tmp_path: Path) -> None:
    server.answers |= {"": whole(b"", status="403 Forbidden")} | {f"/{row}.png": whole(PNG) for row in range(200)}
    table = write_table(tmp_path / "t.csv", [f"{server.url}/{row}.png" for row in range(3000)])
    done = energon(table, tmp_path / "out", *DOWNLOAD, expected=1)
    assert "of 3,000 samples failed; at most 1% may fail. One of them: t.csv, line 202" in done
    assert len(server.requests) < 1000


def test_objects_of_stores_are_downloads_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "objects/data").mkdir(parents=True)
    (tmp_path / "objects/data/a.png").write_bytes(PNG)
    (tmp_path / "objects/data/empty.txt").write_bytes(b"")
    with ObjectServer(tmp_path / "objects") as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
        table = write_table(tmp_path / "t.csv", ["s3://data/a.png"] * 12)
        assert "--download" in energon(table, tmp_path / "out", "--yes", expected=2)
        assert not store.requests
        energon(table, tmp_path / "out", "--yes", "--download")
        assert members(tmp_path / "out")["000000000.png"] == PNG
        too_large = energon(table, tmp_path / "b", "--yes", "--download", "--max-size", "9B", expected=1)
        assert "bytes, more than 9" in too_large


def test_profiles_that_may_be_folders_of_this_machine_are_refused(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", ["msc://home/a.png"] * 12)
    done = energon(table, tmp_path / "out", "--yes", "--download", expected=1)
    assert "a profile of yours may be a folder of this machine" in done


def test_a_password_with_a_slash_is_not_printed(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", ["https://me:planted/planted@host/a.png"] * 12)
    assert "on 1 host such as https://host;" in energon(table, tmp_path / "out", "--yes", expected=2)


def test_paths_below_a_root_that_the_user_names_need_no_permission(server: HostileServer, tmp_path: Path) -> None:
    server.answers |= {
        "/ds/a%20%25.png": lambda: [
            f"HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-{len(PNG) - 1}/{len(PNG)}\r\n"
            f"Content-Length: {len(PNG)}\r\n\r\n".encode()
            + PNG
        ]
    }
    table = write_table(tmp_path / "t.csv", ["a %.png"] * 12)
    energon(table, tmp_path / "out", "--yes", "--root", f"{server.url}/ds")
    assert members(tmp_path / "out")["a %.png"] == PNG
    assert set(server.requests) == {b"/ds/a%20%25.png"}


def test_a_key_holds_no_query(server: HostileServer, tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", [f"{server.url}/{row}.png?sig=planted x" for row in range(12)])
    done = energon(table, tmp_path / "out", *DOWNLOAD, "--key-column", "url", "--part", "png=url")
    assert "planted" not in done
    assert not [name for name in members(tmp_path / "out") if "planted" in name or "sig" in name]
    assert server.requests[0] == b"/0.png?sig=planted%20x" or len(server.requests) == 12


def test_the_wizard_asks_what_becomes_of_urls(server: HostileServer, tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", [f"{server.url}/{row}.png?sig=planted" for row in range(12)])
    command = ("import", table, tmp_path / "out", "--allow-private", "--sample-type", "CrudeWebdataset")
    with TerminalRun(*command, rows=70) as run:
        run.wait_for("fetch them").press(ESCAPE).wait_for("nothing was written")
    assert server.connections == 0
    with TerminalRun(*command, rows=70) as run:
        run.wait_for("names 12 files by URL").press(DOWN, ENTER).wait_for("should the 12 samples be split")
        assert "json (json)" in run.text
        assert "planted" not in run.text.partition("parts:")[0]
    assert server.connections == 0
    with TerminalRun(*command, rows=70) as run:
        run.wait_for("names 12 files by URL").press(ENTER).wait_for("should the 12 samples be split")
        assert "png (url)" in run.text
    assert len(server.requests) == 12


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_the_path_of_a_struct_is_fetched_only_with_permission(server: HostileServer, tmp_path: Path, kind: str) -> None:
    pictures = [{"bytes": PNG, "path": "a.png"}] * 30 + [{"bytes": None, "path": f"{server.url}/b.png?sig=planted"}]
    table = tmp_path / f"t.{kind}"
    if kind == "parquet":
        parquet.write_table(pa.table({"image": pictures, "caption": ["c"] * 31}), table)
    else:
        rows = [{"image": f"{server.url}/{row}.png", "caption": "c"} for row in range(31)]
        table.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    named = "1 file" if kind == "parquet" else "31 files"
    assert f"names {named} by URL" in energon(table, tmp_path / "out", "--yes", expected=2)
    assert server.connections == 0
    energon(table, tmp_path / "b", *DOWNLOAD)
    assert len([name for name in members(tmp_path / "b") if name.endswith(".png")]) == 31
