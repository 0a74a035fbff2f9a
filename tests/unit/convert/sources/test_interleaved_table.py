"""Rows of tables whose texts and pictures line up, as those of OBELICS, become documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from loader.convert.importing.contents import ContentReader
from loader.convert.rows.row import CellRef, UrlRef
from loader.convert.sources.detect import open_source
from loader.convert.sources.source import ImportSource, Listing
from loader.convert.tables.source_options import SourceOptions
from loader.errors import ConfigError, EnergonError
from tests.unit.convert.sources.imported import import_source, load, red, rows_of, write_picture

TEXTS = [["First.", None, "Last."], [None, None], ["Alone"], None, ["a", "b"], [None, "one", None, "null in both"]]
PLACES: list[list[int | None] | None] = [[None, 0, None], [1, 0], [None], None, [None], [0, None, 1, None]]
"""Numbers of the pictures at the places of each row: the fourth has no lists, the fifth has too few pictures."""

STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
LISTS: dict[str, Any] = {
    "paths": pa.list_(pa.string()),
    "paths of a dictionary": pa.list_(pa.dictionary(pa.int32(), pa.string())),
    "paths of polars": pa.large_list(pa.string_view()),
    "bytes": pa.list_(pa.binary()),
    "large bytes": pa.large_list(pa.large_binary()),
    "structs of bytes": pa.list_(STRUCT),
    "structs of paths": pa.list_(STRUCT),
}


def write_table(folder: Path, kind: str = "paths", *, name: str = "documents.parquet") -> Path:
    """Write a table of documents with two pictures."""
    files = [write_picture(folder / f"images/{letter}.png", 50 + 50 * number) for number, letter in enumerate("ab")]

    def picture(number: int | None) -> Any:
        if number is None:
            return None
        data, path = files[number].read_bytes(), f"{files[number].name}"
        if kind.startswith("structs"):
            return {"bytes": data, "path": None} if "bytes" in kind else {"bytes": None, "path": f"images/{path}"}
        return data if "bytes" in kind else path

    images = [None if places is None else [picture(number) for number in places] for places in PLACES]
    columns = {
        "images": pa.array(images, LISTS[kind]),
        "metadata": ["[]"] * len(TEXTS),
        "texts": pa.array(TEXTS, pa.large_list(pa.string())),
    }
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".parquet"):
        parquet.write_table(pa.table(columns), path, row_group_size=2)
    else:
        feather.write_feather(pa.table(columns), str(path))
    return path


def opened(path: Path, **options: Any) -> ImportSource:
    return open_source(str(path), kind=None, options=SourceOptions(**options))


EXPECTED = {
    "000000000": ["First.", 50, "Last."],
    "000000001": [100, 50],
    "000000002": ["Alone"],
    "000000005": [50, "one", 100, "null in both"],
}


@pytest.mark.parametrize("kind", LISTS)
def test_documents_are_loaded_in_reading_order(kind: str, tmp_path: Path) -> None:
    root = str(tmp_path / "images") if kind.startswith("paths") else None
    source = opened(write_table(tmp_path, kind), root=root)
    report = import_source(source, tmp_path / "out", max_failures=2)
    assert [(failure.origin, failure.reason) for failure in report.failures] == [
        ("documents.parquet, row 3", "the document has neither texts nor pictures"),
        ("documents.parquet, row 4", "there are 2 texts and 1 image; expected lists of one length"),
    ]
    samples = load(tmp_path / "out", 4)
    assert {
        key: [item if isinstance(item, str) else red(item) for item in sample.sequence]
        for key, sample in samples.items()
    } == EXPECTED


@pytest.mark.parametrize(("kind", "name"), [("bytes", "documents.arrow"), ("paths", "data/train-0.parquet")])
def test_a_shuffled_import_has_the_same_parts(kind: str, name: str, tmp_path: Path) -> None:
    path = write_table(tmp_path, kind, name=name)
    source = opened(path.parent if "/" in name else path, root=str(tmp_path / "images"))
    reader = ContentReader([source])
    whole = [row for row in rows_of(source) if row.origin[-1] not in "34"]
    shuffled = [*source.rows(Listing(shuffled=True))]
    for row, other in zip(whole, [row for row in shuffled if row.origin[-1] not in "34"], strict=True):
        assert not any(isinstance(part, CellRef) for part in other.parts.values())
        assert [reader.read(0, part) for part in row.parts.values()] == [
            reader.read(0, part) for part in other.parts.values()
        ]
        document = json.loads(bytes(reader.read(0, other.parts["json"])))  # type: ignore[arg-type]
        assert [name for name in document["images"] if name] == [*other.parts][:-1]
        assert document["metadata"] == "[]"
        assert row.split == ("train" if "/" in name else "")
    reader.close()


def test_urls_are_fetched_by_the_workers(tmp_path: Path) -> None:
    urls = ["https://x.org/a.webp?size=2", None, "https://x.org/b.php?id=7"]
    table = pa.table({"id": ["doc/1"], "images": [urls], "texts": [[None, "text", None]]})
    parquet.write_table(table, tmp_path / "a.parquet")
    source = opened(tmp_path / "a.parquet")
    [row] = rows_of(source)
    assert row.key == "doc/1"
    assert row.parts["0.webp"] == UrlRef(b"https://x.org/a.webp?size=2")
    assert row.parts["1.jpg"] == UrlRef(b"https://x.org/b.php?id=7", named_by_contents=True)
    document = json.loads(bytes(ContentReader([source]).read(0, row.parts["json"])))  # type: ignore[arg-type]
    assert document["images"] == ["0.webp", None, "1.jpg"]


def test_a_missing_picture_fails_its_document(tmp_path: Path) -> None:
    path = write_table(tmp_path, "structs of paths")
    (tmp_path / "images/b.png").unlink()
    report = import_source(opened(path), tmp_path / "out", max_failures=4)
    assert {failure.origin[-1]: failure.code for failure in report.failures} == {
        "1": "F102",
        "3": "F101",
        "4": "F101",
        "5": "F102",
    }


def test_a_struct_without_contents_fails_its_document(tmp_path: Path) -> None:
    images = pa.array([[{"bytes": None, "path": None}]], pa.list_(STRUCT))
    parquet.write_table(pa.table({"images": images, "texts": [["a"]]}), tmp_path / "a.parquet")
    with pytest.raises(EnergonError, match="column 'images' is empty; expected bytes or a path"):
        import_source(opened(tmp_path / "a.parquet"), tmp_path / "out")


@pytest.mark.parametrize(
    "columns",
    [
        {"images": [["a", "b"]], "texts": [["a", "b", "c"]]},
        {"images": [["a"]], "texts": [[{"user": "a"}]]},
        {"images": ["a"], "texts": [["a"]]},
    ],
)
def test_other_tables_are_no_documents(columns: dict[str, Any], tmp_path: Path) -> None:
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    [row] = rows_of(opened(tmp_path / "a.parquet"))
    assert "0.jpg" not in row.parts


def test_a_table_without_the_two_columns_is_refused_as_documents(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match="lists of texts and of pictures that line up; found a"):
        open_source(str(tmp_path / "a.parquet"), kind="interleaved", options=SourceOptions())


def test_a_saved_dataset_has_its_splits(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = {"images": [[None, "https://x.org/a.jpg"]], "texts": [["a", None]]}
    saved = datasets.DatasetDict({name: datasets.Dataset.from_dict(rows) for name in ("train", "validation")})
    saved.save_to_disk(str(tmp_path / "saved"))
    assert [(row.key, row.split, [*row.parts]) for row in rows_of(opened(tmp_path / "saved"))] == [
        ("train/000000000", "train", ["0.jpg", "json"]),
        ("validation/000000000", "val", ["0.jpg", "json"]),
    ]
