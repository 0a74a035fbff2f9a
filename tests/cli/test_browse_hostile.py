"""``energon browse`` of datasets that are hostile, huge, or change meanwhile, and its end while it works."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from energon_cli.main import main
from tests.cli.make_dataset import caption_parts, picture, write_captions, write_shard
from tests.cli.test_browse import TOKEN, Site, serve

PARTS = 10_000
NUMBERS = b'{"big": 1e999, "nothing": NaN, "id": 12345678901234567890, "small": 7, "half": 0.5}'
SIDE = 9_000  # of a picture that takes seconds to decode, and is not refused


def slow_picture() -> bytes:
    """Return a small PNG of 81 million pixels."""
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes((SIDE * 3 + 1) * SIDE), 1)), (b"IEND", b"")]
    framed = (
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


def prepare(folder: Path, *flags: str) -> None:
    assert main(["prepare", str(folder), "--non-interactive", "--split-ratio", "1,0,0", *flags]) == 0


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "hostile"
    texts = {f"p{number:05d}.txt": f"text {number}".encode() for number in range(PARTS)}
    slow = slow_picture()
    samples = {
        "many": {**texts, "jpg": picture(1)},
        "numbers": {"json": NUMBERS},
        "deep": {"json": b"[" * 5000 + b"]" * 5000},
        "nearly": {"json": b'{"a":' * 900 + b"1" + b"}" * 900},
        **{f"slow{number}": {"png": slow} for number in range(3)},
    }
    write_shard(folder / "hostile.tar", samples)
    prepare(folder)
    return folder


@pytest.fixture(scope="module")
def site(hostile: Path) -> Iterator[Site]:
    yield from serve(hostile)


def strict(data: bytes) -> Any:
    """Parse JSON as browsers do, which know no infinity."""

    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(data, parse_constant=refuse)


def page(site: Site, key: str) -> Any:
    number = json.loads(site.get(f"/api/d/0/find?shard=hostile.tar&key={key}")[2])["number"]
    status, _, data = site.get(f"/api/d/0/{number}")
    assert status == 200
    return strict(data)


def test_the_page_of_a_sample_of_10_000_parts_has_the_first_200(site: Site) -> None:
    many = page(site, "many")
    assert len(many["parts"]) == 200
    assert many["more"] == PARTS + 1 - 200
    assert many["parts"][199]["text"] == "text 199"
    mapped = strict(site.get("/api/d/0/0/mapped")[2])
    assert len(mapped["fields"]) == 200
    assert "9,801 more fields" in mapped["note"]


def test_a_search_reads_all_10_000_parts_of_a_sample(site: Site) -> None:
    lines = site.get(f"/api/d/0/search?in=texts&text=text+{PARTS - 1}")[2].decode().splitlines()
    assert [row["key"] for line in lines for row in json.loads(line)["rows"]] == ["many"]


def test_numbers_that_a_browser_cannot_hold_are_shown_as_their_digits(site: Site) -> None:
    (part,) = page(site, "numbers")["parts"]
    expected = {"big": "1e999", "nothing": "NaN", "id": "12345678901234567890", "small": 7, "half": 0.5}
    assert part["value"] == expected


@pytest.mark.parametrize("key", ["deep", "nearly"])
def test_nested_json_is_answered(site: Site, key: str) -> None:
    (part,) = page(site, key)["parts"]
    assert part["kind"] in ("json", "text")


@pytest.mark.parametrize("path", ["/api/d/{}/0", "/api/d/0/{}", "/api/d/0/{}/thumbnail", "/api/d/0/rows?start={}"])
def test_numbers_of_thousands_of_digits_are_refused(site: Site, path: str) -> None:
    assert site.get(path.format("9" * 5000))[0] in (400, 404)


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd", "/../../etc/passwd"],
)
def test_paths_never_leave_the_folder_of_static_files(site: Site, path: str) -> None:
    assert site.get(path)[0] == 404


@pytest.mark.parametrize("header", [{"Referer": f"http://127.0.0.1/?token={TOKEN}"}, {"Cookie": f"token={TOKEN}"}])
def test_a_token_in_other_headers_opens_nothing(site: Site, header: dict[str, str]) -> None:
    assert site.get("/api/catalogue", token=None, **header)[0] == 401


def children(process: int) -> list[int]:
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for one in lists for child in one.read_text().split()]


def process_state(process: int) -> str:
    """Return the letter of a process's state, Z of one that does not exist."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def is_alive(process: int) -> bool:
    return process_state(process) != "Z"


def wait(claim: Any) -> Any:
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        found = claim()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("this did not come true")


def start(folder: Path) -> tuple[subprocess.Popen[str], Site]:
    command = [sys.executable, "-m", "energon_cli", "browse", str(folder), "--json", "--token", TOKEN]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout is not None
    return server, Site(json.loads(server.stdout.readline())["url"])


def ask(site: Site, path: str) -> socket.socket:
    """Send a request whose answer is not read."""
    host, _, port = site.address.partition(":")
    connection = socket.create_connection((host, int(port)))
    text = f"GET {path} HTTP/1.1\r\nHost: {site.address}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    connection.sendall(text.encode())
    return connection


def test_ctrl_c_ends_the_server_and_its_processes_quietly_while_they_work(hostile: Path) -> None:
    server, site = start(hostile)
    slow = json.loads(site.get("/api/d/0/find?shard=hostile.tar&key=slow0")[2])["number"]
    paths = [f"/api/d/0/{slow}/findings", "/api/d/0/search?in=findings&text=E", f"/api/d/0/{slow}/thumbnail?part=png"]
    connections = [ask(site, path) for path in paths]
    processes = wait(lambda: len(children(server.pid)) >= 2 and children(server.pid))
    site.get("/")
    server.send_signal(signal.SIGINT)
    _, err = server.communicate(timeout=60)
    assert server.returncode == 130
    assert "Traceback" not in err
    wait(lambda: not any(map(is_alive, processes)))
    for connection in connections:
        connection.close()


def test_a_killed_server_leaves_no_process(hostile: Path) -> None:
    server, site = start(hostile)
    site.get("/api/d/0/0/thumbnail?part=jpg")
    site.get("/api/d/0/1/findings")
    processes = children(server.pid)
    assert processes
    server.kill()
    server.communicate(timeout=60)
    wait(lambda: not any(map(is_alive, processes)))


STOPPED_WORKER = """
import os, signal, sys

def stop_once(event, arguments):
    if event == "open" and str(arguments[0]).endswith("hostile.tar"):
        try:
            os.remove(os.environ["STOP_A_WORKER"])
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGSTOP)

if "spawn_main" in " ".join(sys.orig_argv):
    sys.addaudithook(stop_once)
"""
"""Imported by each process of the server: the first worker that opens the shard stops, so that it is in its search."""


def test_a_search_whose_process_is_killed_answers_so_and_the_next_one_works(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    (tmp_path / "sitecustomize.py").write_text(STOPPED_WORKER)
    monkeypatch.setenv("STOP_A_WORKER", str(mark))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    server, site = start(hostile)
    try:
        with ThreadPoolExecutor() as threads:
            search = threads.submit(site.get, "/api/d/0/search?in=findings&text=E")
            [worker] = wait(lambda: [child for child in children(server.pid) if process_state(child) == "T"])
            os.kill(worker, signal.SIGKILL)
            assert b"was killed" in search.result()[2]
        assert site.get("/api/d/0/search?in=texts&text=text")[0] == 200
    finally:
        server.terminate()
        _, err = server.communicate(timeout=60)
    assert "Traceback" not in err


def test_a_changed_shard_is_refused_and_a_new_prepare_is_shown(tmp_path: Path) -> None:
    folder = write_captions(tmp_path / "captions", shards=2)
    prepare(folder)
    for site in serve(folder):
        before = json.loads(site.get("/api/d/0/rows")[2])["rows"][3]
        assert site.get("/api/d/0/3/part?part=txt")[2] == b"picture number 3"
        assert site.get("/api/d/0/3/thumbnail?part=jpg")[0] == 200
        write_shard(folder / "shard_001.tar", {f"new{number}": caption_parts(number) for number in range(6, 9)})
        for path in ("/api/d/0/3/part?part=txt", "/api/d/0/4/thumbnail?part=jpg", "/api/d/0/3"):
            status, _, data = site.get(path)
            assert status == 422
            assert b"run energon prepare again" in data
        prepare(folder, "--force-overwrite")
        row = new_row(site)
        assert row["v"] != before["v"]
        assert site.get("/api/d/0/3/part?part=txt")[2] == b"picture number 6"
        assert site.get(f"/api/d/0/3/thumbnail?part=jpg&v={row['v']}")[0] == 200
        assert site.get(f"/api/d/0/3/thumbnail?part=jpg&v={before['v']}")[0] == 410
        assert json.loads(site.get("/api/d/0/3/findings")[2]) == []
        shutil.rmtree(folder / ".nv-meta")
        time.sleep(1.1)
        assert rows(site)[3]["key"] == "new6"


def rows(site: Site) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(site.get("/api/d/0/rows")[2])["rows"]
    return found


def new_row(site: Site) -> Any:
    """Wait for the new dataset, since files are checked once a second."""
    return wait(lambda: next((row for row in rows(site) if row["key"] == "new6"), None))


def test_datasets_of_the_same_content_have_urls_of_their_own(tmp_path: Path) -> None:
    """A browser keeps pictures, and another dataset may be served at the same port later."""
    versions = set()
    for name in ("one", "two"):
        folder = write_captions(tmp_path / name, shards=1)
        prepare(folder)
        for site in serve(folder):
            versions.add(rows(site)[0]["v"])
    assert len(versions) == 2


def test_a_missing_extra_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from energon_cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "browse", str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'energon-toolkit[browse]'" in done.stderr
    assert "Traceback" not in done.stderr
