"""Long tables and documents at URLs are fetched only if their beginnings may name files; the decision is the same."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loader.convert.sources import SourceOptions, UnclearDataError
from loader.convert.sources.files import FilesSource
from tests.layouts import cards_science, cards_speech, disturbed
from tests.layouts.layout import LAYOUTS, picture, write
from tests.object_server import ObjectServer
from tests.remote.test_prepare_requests import server

__all__ = ["cards_science", "cards_speech", "disturbed", "server"]  # fixtures, and layouts that are registered

RAW = "s3://bucket/raw"
TEXT = "words that name nothing at all and continue for a while " * 4
MOST_BYTES = 5 * 65536  # of the pieces of a file


def decision(path: str) -> list[dict[str, Any]]:
    """Return the hypotheses for a folder; the numbers of rows are about those of the whole tables."""
    source = FilesSource(path=path, options=SourceOptions())
    try:
        source.survey()
        hypotheses = source.hypotheses
    except UnclearDataError as error:
        hypotheses = error.hypotheses
    return [each.to_document() for each in hypotheses]


def compared(server: ObjectServer, folder: Path, tmp_path: Path) -> tuple[list[dict[str, Any]], int]:
    """Compare the decision at the URL with the one for a copy; return it, and the bytes that it took."""
    shutil.copytree(folder, tmp_path / "copy", dirs_exist_ok=True)
    local = decision(str(tmp_path / "copy"))
    server.requests.clear()
    remote = decision(RAW)
    for there, here in zip(remote, local, strict=True):
        assert there["samples"] == pytest.approx(here["samples"], rel=0.2)
    assert [{**each, "samples": 0} for each in remote] == [{**each, "samples": 0} for each in local]
    return remote, sum(request.sent_bytes for request in server.requests if not request.is_listing)


def lines(count: int, text: str = TEXT) -> str:
    return "".join(f"{json.dumps({'uuid': f'd{n}', 'text': text})}\n" for n in range(count))


def pictures(folder: Path, count: int = 20) -> list[str]:
    names = [f"p{n:03d}_x.jpg" for n in range(count)]
    write(folder, {f"images/{name}": picture() for name in names})
    return names


def test_long_tables_that_name_nothing_are_not_fetched(server: ObjectServer, tmp_path: Path) -> None:
    folder = tmp_path / "store/bucket/raw"
    names = pictures(folder)
    rows = "".join(f"{name},a picture\n" for name in names)
    listed = json.dumps([{"instruction": f"do {n}", "output": TEXT} for n in range(2000)])
    write(
        folder,
        {
            "images/metadata.csv": f"file_name,text\n{rows}",
            "texts/a.jsonl": lines(2000),
            "texts/b.jsonl": lines(2000),
            "prices.csv": "thing,price\n" + "".join(f"thing {n},{n}.5\n" for n in range(25_000)),
            "alpaca.json": listed,
        },
    )
    compared(server, folder, tmp_path)
    read = Counter[str]()
    for request in server.requests:
        read[request.key.removeprefix("bucket/raw/")] += request.sent_bytes
    for name in ("texts/a.jsonl", "texts/b.jsonl", "prices.csv", "alpaca.json"):
        assert MOST_BYTES <= read[name] <= MOST_BYTES + 2 * 65536 < (folder / name).stat().st_size, name


def names_in_the_middle(folder: Path, names: list[str]) -> None:
    rows = "".join(f"{json.dumps({'image': f'images/{name}', 'text': TEXT})}\n" for name in names * 100)
    write(folder, {"rows.jsonl": lines(1500) + rows + lines(1500)})


def names_in_the_middle_of_a_list(folder: Path, names: list[str]) -> None:
    other = [{"text": TEXT} for _ in range(1500)]
    rows = [{"image": f"images/{name}", "text": TEXT} for name in names * 100]
    write(folder, {"rows.json": json.dumps([*other, *rows, *other])})


def names_behind_a_long_header(folder: Path, names: list[str]) -> None:
    images = [{"picture": f"images/{name}", "text": "a text"} for name in names]
    write(folder, {"rows.json": json.dumps({"licenses": [{"terms": TEXT}] * 1500, "rows": images})})


def keys_of_another_table(folder: Path, names: list[str]) -> None:
    rows = "".join(f"{name},{stem.removesuffix('_x.jpg')}-k\n" for name, stem in zip(names, names, strict=True))
    keys = "".join(f"{name.removesuffix('_x.jpg')}-k,{TEXT},{n}.5\n" for n, name in enumerate(names))
    write(folder, {"images.csv": f"file,code\n{rows}", "about.csv": f"name,what,size\n{keys}"})


def the_columns_of_another_table(folder: Path, names: list[str]) -> None:
    rows = "".join(f"images/{name},{TEXT}\n" for name in names)
    others = "".join(f"nowhere {n},{TEXT}\n" for n in range(1500))
    write(folder, {"train.csv": f"file,what\n{rows}", "other.csv": f"file,what\n{others}"})


@pytest.mark.parametrize(
    ("build", "count"),
    [
        (names_in_the_middle, 20),
        (names_in_the_middle_of_a_list, 20),
        (names_behind_a_long_header, 20),
        (keys_of_another_table, 2000),
        (the_columns_of_another_table, 20),
    ],
)
@pytest.mark.sampled(3)
def test_what_the_rest_of_a_long_file_says_is_found(
    build: Callable[[Path, list[str]], None], count: int, server: ObjectServer, tmp_path: Path
) -> None:
    folder = tmp_path / "store/bucket/raw"
    build(folder, pictures(folder, count))
    hypotheses, read_bytes = compared(server, folder, tmp_path)
    assert hypotheses[0]["fits"] or build is the_columns_of_another_table
    longest = max(path.stat().st_size for path in folder.iterdir() if path.is_file())
    assert read_bytes > longest > MOST_BYTES


@pytest.mark.parametrize("name", ["common_voice_with_its_sentences", "kaldi", "bids", "nerf_synthetic"])
@pytest.mark.sampled(2)
def test_long_tables_of_other_things_change_no_decision(name: str, server: ObjectServer, tmp_path: Path) -> None:
    folder = tmp_path / "store/bucket/raw"
    folder.mkdir()
    LAYOUTS[name].build(folder)
    things = "".join(f"thing {n},{9.5 + n},sold in shop {n % 37}\n" for n in range(15_000))
    write(folder, {"prices.csv": f"product,price,remark\n{things}", "texts.jsonl": lines(1500)})
    compared(server, folder, tmp_path)


def test_tables_are_not_fetched_for_their_columns(server: ObjectServer, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder = tmp_path / "store/bucket/raw"
    folder.mkdir()
    for split in ("train", "test"):
        table = pyarrow.table({"id": [*range(1500)], "text": [f"{n} {TEXT}" for n in range(1500)]})
        parquet.write_table(table, folder / f"{split}.parquet", compression=None)
    hypotheses, read_bytes = compared(server, folder, tmp_path)
    assert hypotheses[0]["fits"]
    assert read_bytes <= 2 * 65536 < (folder / "train.parquet").stat().st_size


def test_a_folder_is_listed_once(server: ObjectServer, tmp_path: Path) -> None:
    from loader.convert.importing import list_rows

    pictures(tmp_path / "store/bucket/raw")
    source = FilesSource(path=RAW)
    source.survey()
    with list_rows([source], shuffled=False) as listed:
        assert len(listed.rows) == 20
    assert len([request for request in server.requests if request.is_listing]) == 1
