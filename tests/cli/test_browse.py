"""``energon browse``: what the server answers, and to whom."""

from __future__ import annotations

import http.client
import io
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from PIL import Image

from energon_cli.main import main
from tests.cli.make_dataset import caption_parts, picture, write_captions, write_shard
from tests.cli.run_energon import Done, RunEnergon
from tests.forked_commands import program

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

HOSTILE = ['a/b "<script>', "x/../../etc/passwd", "new\nline"]
TOKEN = "right"


class Site:
    """A server that runs, and requests to it."""

    def __init__(self, url: str) -> None:
        self.address = urlsplit(url).netloc
        self.url = url

    def get(
        self, path: str, *, token: str | None = TOKEN, method: str = "GET", body: str | None = None, **headers: str
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection(self.address, timeout=60)
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, answer.headers, data


def serve(folder: Path | str, *flags: str) -> Iterator[Site]:
    command = [program(), "browse", str(folder), "--json", "--token", TOKEN, *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield Site(json.loads(server.stdout.readline())["url"])
        server.terminate()
        assert server.wait(30) == 0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of ``site``. No test changes it."""
    folder = write_captions(tmp_path_factory.mktemp("served") / "captions")
    odd = {"jpg": b"no picture", "html": b"<script>alert(1)</script>", "png": picture(1, form="PNG"), "wav": bytes(99)}
    write_shard(folder / "shard_999.tar", {key: caption_parts(7) | odd for key in HOSTILE})
    assert main(["prepare", str(folder), "--non-interactive", "--split-ratio", "3,1,1", "--num-workers", "1"]) == 0
    return folder


@pytest.fixture(scope="module")
def site(served: Path) -> Iterator[Site]:
    yield from serve(served)


@pytest.fixture
def folder(served: Path, tmp_path: Path) -> Path:
    """A copy of ``served``."""
    return Path(shutil.copytree(served, tmp_path / "captions"))


def test_only_the_token_opens_the_pages(site: Site) -> None:
    paths = ("/", "/static/app.js", "/api/catalogue", "/api/d/0/0/part?part=jpg", "/s/captions/a/b")
    assert [site.get(path, token=None)[0] for path in paths] == [401] * 5
    assert site.get("/", token="wrong")[0] == 401
    assert site.get("/?token=wrong", token=None)[0] == 401
    assert [site.get(path)[0] for path in paths] == [200] * 5
    status, headers, _ = site.get(f"/?token={TOKEN}&x=1", token=None)
    assert (status, headers["Location"]) == (303, "/?x=1")
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert site.get("/", token=None, Cookie=cookie.partition(";")[0])[0] == 200


def test_servers_of_one_host_keep_their_cookies_apart(site: Site) -> None:
    cookie = site.get(f"/?token={TOKEN}", token=None)[1]["Set-Cookie"]
    assert cookie.partition("=")[0] == f"energon_browse_{site.address.rpartition(':')[2]}"


@pytest.mark.parametrize("number", ["-1", "1.5", "1e3", "+1", "9" * 19, "9" * 5000])
def test_numbers_beyond_any_run_are_refused(site: Site, number: str) -> None:
    parts = ("", "/part", "/thumbnail", "/mapped", "/findings", "/tensors")
    paths = [
        *(f"/api/d/0/{number}{part}?part=jpg" for part in parts),
        *(f"/api/d/{number}/{page}" for page in ("facets", "rows", "search", "stats", "find", "0")),
        *(f"/api/d/0/rows?{name}={quote(number)}" for name in ("start", "count", "seed")),
        *(f"/api/training?{name}={quote(number)}" for name in ("start", "step", "ranks", "rank", "path")),
    ]
    assert {site.get(path)[0] for path in paths} == {400}


def test_a_step_whose_samples_no_64_bits_count_is_refused(site: Site) -> None:
    step = "9" * 17
    assert site.get(f"/api/training?step={step}&batch_size=16384")[0] == 400
    assert site.get(f"/api/training?step={step}")[0] == 200


def test_the_redirect_never_leaves_the_host(site: Site) -> None:
    status, headers, _ = site.get(f"//evil.example/?token={TOKEN}", token=None)
    assert status == 303
    assert not headers["Location"].startswith("//")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_pages_of_other_host_names_are_refused(site: Site, host: str) -> None:
    assert site.get("/", Host=host)[0] in (400, 421)


def test_rows_are_the_samples_in_order_and_shuffled_ones_are_the_same_samples(site: Site) -> None:
    rows = json.loads(site.get("/api/d/0/rows?start=10&count=5")[2])
    assert (rows["total"], [row["n"] for row in rows["rows"]]) == (15, [10, 11, 12, 13, 14])
    assert [row["key"] for row in rows["rows"]][2:] == HOSTILE
    shuffled = [row["n"] for row in json.loads(site.get("/api/d/0/rows?seed=3")[2])["rows"]]
    assert shuffled != sorted(shuffled)
    assert sorted(shuffled) == list(range(15))
    only = json.loads(site.get("/api/d/0/rows?shard=shard_001.tar")[2])
    assert [row["n"] for row in only["rows"]] == [3, 4, 5]


def test_thumbnails_are_small_and_cached_forever(site: Site) -> None:
    status, headers, data = site.get("/api/d/0/0/thumbnail?part=jpg")
    assert status == 200
    assert "immutable" in headers["Cache-Control"]
    with Image.open(io.BytesIO(data)) as image:
        assert (image.format, image.size) == ("JPEG", (24, 16))
    assert site.get("/api/d/0/0/thumbnail?part=jpg", If_None_Match=headers["ETag"])[0] == 304
    assert site.get("/api/d/0/1/thumbnail?part=jpg")[1]["ETag"] != headers["ETag"]


def test_broken_pictures_and_missing_samples_are_answered_as_such(site: Site) -> None:
    assert site.get("/api/d/0/12/thumbnail?part=jpg")[0] == 422
    assert site.get("/api/d/0/12/part?part=nothing")[0] == 404
    assert [site.get(path)[0] for path in ("/api/d/0/15", "/api/d/1/0", "/api/d/0/rows?start=-1")] == [404, 404, 400]


def test_media_come_by_ranges(site: Site) -> None:
    whole = site.get("/api/d/0/0/part?part=txt")[2]
    assert whole == b"picture number 0"
    status, headers, data = site.get("/api/d/0/0/part?part=txt", Range="bytes=8-13")
    assert (status, headers["Content-Range"], data) == (206, "bytes 8-13/16", b"number")
    assert site.get("/api/d/0/0/part?part=txt", Range="bytes=-1")[2] == b"0"
    assert site.get("/api/d/0/0/part?part=txt", Range="bytes=16-")[0] == 416


def test_html_is_sent_as_sandboxed_text(site: Site) -> None:
    status, headers, data = site.get("/api/d/0/12/part?part=html")
    assert (status, data) == (200, b"<script>alert(1)</script>")
    assert headers["Content-Type"].startswith("text/plain")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in headers["Content-Security-Policy"]
    assert "script-src 'self'" in site.get("/")[1]["Content-Security-Policy"]


@pytest.mark.parametrize("key", HOSTILE)
def test_hostile_keys_are_found_and_described(site: Site, key: str) -> None:
    number = json.loads(site.get(f"/api/d/0/find?shard=shard_999.tar&key={quote(key, safe='')}")[2])["number"]
    page = json.loads(site.get(f"/api/d/0/{number}")[2])
    assert (page["key"], page["shard"]) == (key, "shard_999.tar")
    kinds = {part["name"]: part["kind"] for part in page["parts"]}
    assert kinds == {"jpg": "picture", "txt": "text", "json": "json", "html": "text", "png": "picture", "wav": "audio"}
    assert site.get(f"/s/captions/shard_999.tar/{quote(key, safe='')}")[0] == 200


def test_a_sample_page_has_the_mapped_sample_and_where_its_bytes_lie(site: Site, served: Path) -> None:
    part = json.loads(site.get("/api/d/0/1")[2])["parts"][1]
    shard = (served / "shard_000.tar").read_bytes()
    assert shard[part["offset"] : part["offset"] + part["size_bytes"]] == b"picture number 1"
    mapped = json.loads(site.get("/api/d/0/1/mapped")[2])
    assert [field["name"] for field in mapped["fields"]] == ["jpg", "txt", "json"]


def search(site: Site, query: str) -> list[int]:
    lines = site.get(f"/api/d/0/search?{query}")[2].decode().splitlines()
    return [row["n"] for line in lines for row in json.loads(line)["rows"]]


def test_searches_find_keys_by_their_beginning_and_texts(site: Site) -> None:
    assert search(site, "text=00001") == [10, 11]
    assert search(site, "text=x/") == [13]
    assert search(site, "text=NUMBER%2011&in=texts") == [11]
    assert search(site, "text=number&in=texts&shard=shard_002.tar") == [6, 7, 8]


def test_a_server_without_edit_excludes_nothing(site: Site, served: Path) -> None:
    before = (served / ".nv-meta" / "split.yaml").read_bytes()
    body = json.dumps({"keys": ["shard_000.tar/000001"]})
    assert site.get("/api/d/0/exclude", method="POST", body=body, X_Energon="1")[0] == 403
    assert (served / ".nv-meta" / "split.yaml").read_bytes() == before


def test_edit_excludes_the_selection_and_only_the_page_may_ask_for_it(folder: Path) -> None:
    body = json.dumps({"keys": ["shard_000.tar/000001"]})
    for site in serve(folder, "--edit"):
        assert site.get("/api/d/0/exclude", method="POST", body=body)[0] == 403
        status, _, answer = site.get("/api/d/0/exclude", method="POST", body=body, X_Energon="1")
        assert (status, json.loads(answer)["samples"]) == (200, 1)
        rows = json.loads(site.get("/api/d/0/rows?count=3")[2])["rows"]
        assert [row["excluded"] for row in rows] == [False, True, False]


def test_missing_datasets_and_ports_in_use_are_errors(
    site: Site, folder: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    missing: Done = energon("browse", tmp_path / "nothing", "--json")
    assert missing.code != 0
    taken = energon("browse", folder, "--port", site.address.partition(":")[2])
    assert taken.code == 1
    assert "cannot listen at this address" in taken.err


def rows_of(site: Site, query: str = "") -> list[tuple[str, str]]:
    rows = json.loads(site.get(f"/api/d/0/rows?count=100{query}")[2])["rows"]
    return [(row["shard"], row["key"]) for row in rows]


@pytest.mark.parametrize("is_file", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_tar_shards_that_are_not_prepared_are_browsed_and_stay_as_they_are(tmp_path: Path, is_file: bool) -> None:
    folder = write_captions(tmp_path / "raw", samples=3)
    write_shard(folder / "shard_001.tar", {"broken": {"jpg": b"no picture"}, "other": caption_parts(1)})
    before = sorted(folder.iterdir())
    for site in serve(folder / "shard_001.tar" if is_file else folder, "--edit"):
        rows = rows_of(site)
        assert len({shard for shard, _ in rows}) == (1 if is_file else len(before))
        number = rows.index(("shard_001.tar", "broken"))
        assert site.get(f"/api/d/0/{number + 1}/thumbnail?part=jpg")[0] == 200
        assert [one["code"] for one in json.loads(site.get(f"/api/d/0/{number}/findings")[2])] == ["E302"]
        body = json.dumps({"keys": ["shard_001.tar/other"], "tag": "x"})
        status, _, answer = site.get("/api/d/0/tag", method="POST", body=body, X_Energon="1")
        assert status == 422
        assert b"not prepared" in answer
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("prepared", ["a folder", pytest.param("a file", marks=pytest.mark.slow)])
def test_samples_of_jsonl_files_have_the_findings_of_lint(tmp_path: Path, energon: RunEnergon, prepared: str) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    lines = [b'{"text": "%d"}\n' % number for number in range(5)]
    file = folder / "a.jsonl"
    file.write_bytes(b"".join(lines))
    path = folder if prepared == "a folder" else file
    assert energon("prepare", path, "--yes").code == 0
    lines[2] = b'{"text":  2 ]\n'
    lines[3] = b'{"text":"\xff\xff"}\n'
    assert [len(line) for line in lines] == [14] * 5
    file.write_bytes(b"".join(lines))
    reported = {finding["offset"]: finding["code"] for finding in energon("lint", path, "--json").json["findings"]}
    found: list[list[dict[str, str]]] = []
    for site in serve(path):
        found = [json.loads(site.get(f"/api/d/0/{number}/findings")[2]) for number in range(5)]
        assert rows_of(site) == [("a.jsonl", str(number)) for number in range(5)]
    shown = {14 * number: one["code"] for number, some in enumerate(found) for one in some}
    assert shown == {28: "E403", 42: "E404"}
    assert shown.items() <= reported.items()
