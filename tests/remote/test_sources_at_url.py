"""Sources of an import in an object store: folders, tables and tars become what their copies on a disk become."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from loader.convert.importing.plan import ImportPlan, list_rows
from loader.convert.importing.run import run_import
from loader.convert.sources import SourceOptions
from loader.convert.sources.files import FilesSource
from tests.cli.run_energon import RunEnergon, run_in_this_process
from tests.e2e.dataset_tree import write_tar
from tests.e2e.test_convert_shares import begin, end, files_of
from tests.object_server import ObjectServer
from tests.remote.test_prepare_requests import server
from tests.unit.convert.importing.test_run import samples_of, shards_of, write_photos

__all__ = ["server"]  # a fixture

RAW = "s3://bucket/raw"
OPTIONS = ("--yes", "--samples-per-shard", "4", "--num-workers", "1")


@pytest.fixture
def energon(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunEnergon:
    return run_in_this_process(capfd, monkeypatch)


def write_pictures(folder: Path) -> None:
    write_photos(folder, 10)
    (folder / ".hidden").write_text("not seen")
    (folder / "README.md").write_text("Photographs.")
    for name in ("train", "val"):
        write_photos(folder / name, 3)


def write_classes(folder: Path) -> None:
    folder.mkdir()
    for name in ("cat", "dog"):
        write_photos(folder / name, 3)
        for text in (folder / name).glob("*.txt"):
            text.unlink()
        for picture in (folder / name).glob("*.jpg"):  # equal names could be parts of one sample
            picture.rename(picture.with_stem(f"{name}_{picture.stem}"))


def write_described(folder: Path) -> None:
    """Write pictures and a table that names them, as the Hub stores them."""
    write_photos(folder, 8)
    for text in folder.glob("*.txt"):
        text.unlink()
    rows = [{"file_name": f"{number:03d}.jpg", "text": f"caption {number}"} for number in range(8)]
    (folder / "metadata.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def write_parquet(folder: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder.mkdir()
    for split, start in (("train", 0), ("val", 6)):
        table = pyarrow.table({"id": [f"k{n}" for n in range(start, start + 5)], "text": ["a text"] * 5})
        parquet.write_table(table, folder / f"{split}-00000-of-00001.parquet")


def write_tars(folder: Path) -> None:
    (folder / "b").mkdir(parents=True)
    for name in ("z.tar", "b/a.tar"):
        members = [(f"{name[0]}{number}.{part}", part.encode()) for number in range(3) for part in ("json", "txt")]
        write_tar(folder / name, members)
    (folder / "c.tar.gz").write_bytes(gzip.compress((folder / "z.tar").read_bytes().replace(b"z", b"y"), mtime=0))


SOURCES = [write_pictures, write_classes, write_described, write_parquet, write_tars]


@pytest.mark.parametrize("write", SOURCES)
@pytest.mark.sampled(3)
def test_a_folder_at_a_url_becomes_what_its_copy_becomes(
    write: Callable[[Path], None], server: ObjectServer, energon: RunEnergon, tmp_path: Path
) -> None:
    write(tmp_path / "store/bucket/raw")
    if write is write_tars:  # damaged checksums of the headers
        write_tar(tmp_path / "y.tar", [("y0.txt", b"y"), ("y1.txt", b"y")])
        packed = gzip.compress((tmp_path / "y.tar").read_bytes(), mtime=0)
        (tmp_path / "store/bucket/raw/c.tar.gz").write_bytes(packed)
    shutil.copytree(tmp_path / "store/bucket/raw", tmp_path / "raw")
    local = energon("import", tmp_path / "raw", tmp_path / "local", *OPTIONS, "--json")
    assert local.code == 0, local.err
    remote = energon("import", RAW, "s3://bucket/out", *OPTIONS, "--json")
    assert remote.code == 0, remote.err
    stored = tmp_path / "store/bucket/out"
    assert shards_of(stored) == shards_of(tmp_path / "local")
    assert samples_of(stored) == samples_of(tmp_path / "local")
    for name in ("split.yaml", "dataset.yaml"):
        assert (stored / ".nv-meta" / name).read_bytes() == (tmp_path / "local/.nv-meta" / name).read_bytes()
    seen = [done.json["account"]["seen"] for done in (remote, local)]
    assert seen[0] == seen[1]


def test_single_files_at_urls(server: ObjectServer, energon: RunEnergon, tmp_path: Path) -> None:
    write_tars(tmp_path / "store/bucket/raw")
    assert energon("import", f"{RAW}/z.tar", tmp_path / "one", *OPTIONS).code == 0
    assert len(samples_of(tmp_path / "one")) == 3
    (tmp_path / "store/bucket/raw/t.csv").write_text("id,text\na,one\nb,two\n")
    assert energon("import", f"{RAW}/t.csv", tmp_path / "table", *OPTIONS).code == 0
    assert len(samples_of(tmp_path / "table")) == 2


def test_notes_name_the_table_at_its_url(server: ObjectServer, energon: RunEnergon, tmp_path: Path) -> None:
    (tmp_path / "store/bucket/raw").mkdir(parents=True)
    (tmp_path / "store/bucket/raw/t.csv").write_text("# a comment\n1,a first text\n2,a second text\n3,a third text\n")
    done = energon("import", RAW, tmp_path / "out", *OPTIONS, "--json")
    assert done.code == 0, done.err
    assert f"comments of {RAW}/t.csv were left out" in done.out
    assert f"the first line of {RAW}/t.csv is data" in done.out
    assert "members/t.csv" not in done.out + done.err


def test_shares_from_a_bucket_to_a_bucket(server: ObjectServer, energon: RunEnergon, tmp_path: Path) -> None:
    write_photos(tmp_path / "store/bucket/raw", 20)
    line = ("import", RAW, "s3://bucket/out", *OPTIONS, "--split-ratio", "3,1,0")
    assert energon("import", RAW, "s3://bucket/whole", *line[3:]).code == 0
    children = [begin(*line, "--share", f"{share}/3") for share in (3, 1)]
    assert [end(child) for child in children] == [0, 0]
    missing = energon(*line, "--merge")
    assert "share 2 of 3 is not complete" in missing.err
    assert energon(*line, "--share", "2/3").code == 0
    merged = energon(*line, "--merge")
    assert merged.code == 0, merged.err
    stored = tmp_path / "store/bucket"
    assert files_of(stored / "out").keys() == files_of(stored / "whole").keys()
    assert shards_of(stored / "out") == shards_of(stored / "whole")


def test_files_are_read_once_with_their_listed_version(
    server: ObjectServer, energon: RunEnergon, tmp_path: Path
) -> None:
    write_photos(tmp_path / "store/bucket/raw", 6)
    assert energon("import", RAW, tmp_path / "out", *OPTIONS).code == 0
    reads = [request for request in server.requests if "raw/" in request.key and not request.is_listing]
    assert not [request for request in reads if request.method == "HEAD"]
    # Once for the proposal, once for the shards, and texts once more, which may be annotations.
    assert len(reads) == 2 * 12 + 6


def test_a_file_that_changes_after_the_listing_fails(server: ObjectServer, tmp_path: Path) -> None:
    raw = write_photos(tmp_path / "store/bucket/raw", 3)
    source = FilesSource(path=RAW)
    plan = ImportPlan(sources=(source,), output=str(tmp_path / "out"), max_failures=1)
    with list_rows(plan.sources, shuffled=False) as listed:
        (raw / "001.txt").write_text("other 1")
        report = run_import(plan, listed=listed)
    assert [failure.key for failure in report.failures] == ["001"]
    assert len(samples_of(tmp_path / "out")) == 2


def test_nothing_that_the_user_did_not_name_is_read(server: ObjectServer, energon: RunEnergon, tmp_path: Path) -> None:
    raw = tmp_path / "store/bucket/raw"
    write_photos(raw, 4)
    for text in raw.glob("*.txt"):
        text.unlink()
    secret = write_photos(tmp_path / "store/bucket/secret", 2)
    paths = [
        *(f"{number:03d}.jpg" for number in range(4)),
        "../secret/000.jpg",
        "/bucket/secret/000.jpg",
        str(secret / "000.jpg"),
        f"file://{secret}/000.jpg",
    ]
    (raw / "metadata.csv").write_text("file_name,text\n" + "".join(f"{path},a\n" for path in paths))
    server.requests.clear()
    done = energon("import", RAW, tmp_path / "out", *OPTIONS, "--max-failures", "4", "--no-allow-outside")
    assert done.code == 0, done.err
    assert len(samples_of(tmp_path / "out")) == 4
    assert not [request for request in server.requests if "secret" in request.key]
    # A URL in it is fetched only by --download, and then by its rules for private addresses.
    (raw / "metadata.csv").write_text(
        f"file_name,text\n000.jpg,a\n001.jpg,a\ns3://bucket/secret/000.jpg,b\n{server.url}/x.jpg,c\n"
    )
    refused = energon("import", RAW, tmp_path / "urls", *OPTIONS)
    assert refused.code == 2
    assert "--download" in refused.err
    assert not [request for request in server.requests if "secret" in request.key or request.key == "x.jpg"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("s3://bucket/none", "there is no file or folder of this name"),
        ("s3://bucket/a.zip", "is read from a disk"),
    ],
)
def test_what_is_no_source(
    server: ObjectServer, energon: RunEnergon, tmp_path: Path, source: str, message: str
) -> None:
    done = energon("import", source, tmp_path / "out", *OPTIONS)
    assert done.code == 1
    assert message in done.err


def test_a_dataset_inside_of_its_source_is_refused(server: ObjectServer, energon: RunEnergon, tmp_path: Path) -> None:
    write_photos(tmp_path / "store/bucket/raw", 2)
    done = energon("import", RAW, f"{RAW}/out", *OPTIONS)
    assert done.code == 1
    assert "inside of the folder that it is made of" in done.err
    assert os.listdir(tmp_path / "store/bucket") == ["raw"]


def test_few_of_many_documents_are_requested_to_decide(server: ObjectServer, tmp_path: Path) -> None:
    folder = tmp_path / "store/bucket/raw"
    folder.mkdir()
    for number in range(1500):
        (folder / f"{number:04d}.json").write_text('{"text": "a cat"}')
    told: list[str] = []
    source = FilesSource(path=RAW, options=SourceOptions(tell=told.append))
    assert source.survey().kind == "files"
    requests = [request for request in server.requests if request.method == "GET" and request.key.endswith(".json")]
    assert len(requests) <= 1000
    assert told == [f"names of files are searched by up to {len(requests):,} requests for {17 * len(requests):,} bytes"]
