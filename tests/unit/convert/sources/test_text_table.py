"""Rows of CSV, TSV and JSONL files become samples, and those that cannot be read are reported by their line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Literal

import pytest

from loader.convert.rows.row import FaultRef
from loader.convert.sources.detect import open_source
from loader.convert.sources.source import Listing
from loader.convert.sources.table_source import TextTableSource
from loader.convert.tables.source_options import SourceOptions
from loader.errors import ConfigError, StorageError
from tests.imports import imported, picture, reasons


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.jpg").write_bytes(picture(number))
    return tmp_path


def table(path: Path, text: str, *, kind: Literal["csv", "tsv", "jsonl"] = "csv", **columns: object) -> TextTableSource:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return TextTableSource(path=str(path), kind=kind, columns=SourceOptions(**columns))  # type: ignore[arg-type]


def roles(source: TextTableSource) -> dict[str, tuple[str, str | None]]:
    return {column.name: (column.role, column.part) for column in source.describe()}


def test_paths_captions_labels_and_the_rest_become_parts(photos: Path) -> None:
    source = table(
        photos / "t.csv",
        "\ufefffile,caption,label,width,code\r\n"
        'photos/0.jpg,"a ""red"" cat,\r\nasleep",3,640,007\r\n'
        "photos/1.jpg,,0,,x\r\n",
    )
    assert roles(source) == {
        "file": ("path", "jpg"),
        "caption": ("text", "txt"),
        "label": ("label", "cls"),
        "width": ("json", "json"),
        "code": ("json", "json"),
    }
    samples, report = imported(source, photos / "out")
    assert report.failed == 0
    assert samples == {
        "photos/0": {
            "jpg": picture(0),
            "txt": b'a "red" cat,\r\nasleep',
            "cls": b"3",
            "json": b'{"width":640,"code":"007"}',
        },
        "photos/1": {"jpg": picture(1), "txt": b"", "cls": b"0", "json": b'{"width":null,"code":"x"}'},
    }


def test_ragged_rows_missing_files_and_empty_paths_fail_alone_with_their_line(photos: Path) -> None:
    text = (
        'file,caption\nphotos/0.jpg,"two\nlines"\nphotos/1.jpg\nnone.jpg,c\n,d\nphotos/2.jpg,\udcff\nphotos/3.jpg,\0\n'
    )
    samples, report = imported(table(photos / "t.csv", text), photos / "out", max_failures=4)
    assert samples == {"photos/0": {"jpg": picture(0), "txt": b"two\nlines"}}
    found = reasons(report)
    assert found["t.csv, line 4"] == "expected 2 fields, found 1"
    assert "there is no file" in found["t.csv, line 5"]
    assert found["t.csv, line 7"] == "it is not UTF-8 text"
    assert found["t.csv, line 8"].startswith("it has zero bytes")
    (left,) = report.account.left_out
    assert (left.unit, left.reason, left.count, left.example) == ("rows", "L120", 1, "t.csv, line 6")
    assert {entry.reason: entry.count for entry in report.account.failed if entry.unit == "rows"} == {
        "F101": 3,
        "F102": 1,
    }


def test_fields_may_be_larger_than_the_limit_of_csv(tmp_path: Path) -> None:
    big = "x" * 400_000  # by default, csv refuses more than 131,072
    samples, _ = imported(table(tmp_path / "t.csv", f"id,text\na,{big}\n"), tmp_path / "out")
    assert samples == {"a": {"txt": big.encode()}}


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
def test_the_delimiter_is_found(delimiter: str, tmp_path: Path) -> None:
    text = f"id{delimiter}text\na{delimiter}hello\n"
    samples, _ = imported(table(tmp_path / "t.csv", text), tmp_path / "out")
    assert samples == {"a": {"txt": b"hello"}}


def test_tsv_without_quoting_and_without_a_header(tmp_path: Path) -> None:
    # As Conceptual Captions has it: a caption may begin with a quote that is never closed.
    text = '"hello there\thttps://example.org/a.jpg\nb\thttps://example.org/b.png?s=1\n'
    source = table(tmp_path / "t.tsv", text, kind="tsv")
    assert roles(source) == {"column_1": ("text", "txt"), "column_2": ("url", "jpg")}
    rows = list(source.rows(Listing()))
    assert [sorted(row.parts) for row in rows] == [["jpg", "txt"], ["png", "txt"]]
    assert rows[0].parts["txt"].data == b'"hello there'  # type: ignore[union-attr]
    assert rows[1].parts["png"].url == b"https://example.org/b.png?s=1"  # type: ignore[union-attr]


def test_urls_are_read_through_the_storage_layer_and_named_by_their_contents(photos: Path) -> None:
    (photos / "unnamed").write_bytes(picture(7, "PNG"))
    lines = [{"image_url": f"file://{photos}/photos/0.jpg"}, {"image_url": f"file://{photos}/unnamed"}]
    source = table(photos / "t.jsonl", "\n".join(map(json.dumps, lines)), kind="jsonl")
    samples, _ = imported(source, photos / "out")
    assert samples == {"000000000": {"jpg": picture(0)}, "000000001": {"png": picture(7, "PNG")}}


def test_a_document_has_its_rows_in_one_list_of_any_name(photos: Path) -> None:
    rows = [{"path": f"photos/{number}.jpg", "pose": [number]} for number in range(4)]
    path = photos / "scene.json"
    path.write_text(json.dumps({"version": 1, "views": rows, "about": {"by": "x"}}))
    source = open_source(str(path), kind=None, options=SourceOptions())
    assert {sample["json"] for sample in imported(source, photos / "out")[0].values()} == {
        f'{{"pose":[{number}]}}'.encode() for number in range(4)
    }
    path.write_text(json.dumps({"version": 1, "views": rows, "others": rows}))
    with pytest.raises(ConfigError, match="expected a list or an object with data, found version, views, others"):
        imported(open_source(str(path), kind=None, options=SourceOptions()), photos / "none")


def test_jsonl_keeps_nested_values_and_reports_bad_lines(photos: Path) -> None:
    lines = [
        '{"id": "a.b", "image": "photos/0.jpg", "turns": [{"q": "é"}], "n": 1.5}',
        "{broken",
        "",
        "[1]",
        '{"id": "c", "image": "photos/1.jpg", "turns": [], "n": NaN, "more": true}',
    ]
    samples, report = imported(
        table(photos / "t.jsonl", "\n".join(lines), kind="jsonl"), photos / "out", max_failures=2
    )
    assert samples["a_b"] == {"jpg": picture(0), "json": '{"turns":[{"q":"é"}],"n":1.5}'.encode()}
    assert json.loads(samples["c"]["json"]) == {"turns": [], "n": None, "more": True}
    found = reasons(report)
    assert found["t.jsonl, line 2"].startswith("it is not JSON")
    assert found["t.jsonl, line 4"] == "expected an object of JSON, found list"


def test_a_column_that_only_later_lines_have_is_kept(tmp_path: Path) -> None:
    lines = [json.dumps({"id": number, "text": "t"}) for number in range(150)] + ['{"id": 150, "text": "t", "new": 1}']
    samples, _ = imported(table(tmp_path / "t.jsonl", "\n".join(lines), kind="jsonl"), tmp_path / "out")
    assert samples["149"] == {"txt": b"t"}
    assert samples["150"] == {"txt": b"t", "json": b'{"new":1}'}


def test_named_columns_win_and_the_others_are_not_written(photos: Path) -> None:
    text = "name,one,two,fold,caption\nk,0.jpg,1.jpg,validation,c\n"
    source = table(
        photos / "t.csv",
        text,
        parts={"left": "one", "right.jpg": "two", "note": "caption"},
        key="name",
        split="fold",
        root=str(photos / "photos"),
    )
    samples, report = imported(source, photos / "out")
    assert samples == {"k": {"left.jpg": picture(0), "right.jpg": picture(1), "note.txt": b"c"}}
    assert report.failed == 0
    assert "val" in (photos / "out/.nv-meta/split.yaml").read_text()


def test_repeated_keys_get_numbers(tmp_path: Path) -> None:
    source = table(tmp_path / "t.csv", "id,text\na,x\na,y\n", key="id")
    samples, report = imported(source, tmp_path / "out")
    assert samples == {"a": {"txt": b"x"}, "a-2": {"txt": b"y"}}
    assert report.renamed == 1


def test_a_split_column_makes_split_parts(tmp_path: Path) -> None:
    text = "text,split\na,train\nb,validation\nc,test\n"
    rows = list(table(tmp_path / "t.csv", text).rows(Listing()))
    assert [row.split for row in rows] == ["train", "val", "test"]


def test_gzip_is_decompressed_and_damage_is_an_error(tmp_path: Path) -> None:
    data = gzip.compress(b"id,text\n" + b"".join(b"%d,hello %d\n" % (n, n * n) for n in range(5000)))
    path = tmp_path / "t.csv.gz"
    path.write_bytes(data)
    source = TextTableSource(path=str(path), kind="csv")
    assert sum(1 for _ in source.rows(Listing())) == 5000
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(StorageError, match="cannot be decompressed"):
        list(source.rows(Listing()))


def test_a_missing_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    source = table(tmp_path / "t.csv", "id,caption\na,b\n", parts={"txt": "captoin"})
    with pytest.raises(ConfigError, match="no column 'captoin'; did you mean 'caption'"):
        list(source.rows(Listing()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "this table is empty"),
        ("a,b\n", "has no rows"),
        ("a,b\n1\n2\n", "none of 2 rows is valid; line 2: expected 2 fields, found 1"),
        ("id\nx\ny\n", "no column that can be a part"),
    ],
)
def test_tables_without_anything_to_write_are_errors(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        list(table(tmp_path / "t.csv", text).rows(Listing()))


def test_a_quote_that_is_never_closed_takes_no_other_line(photos: Path) -> None:
    lines = [f"photos/{number % 4}.jpg,caption {number}" for number in range(60)]
    lines[5], lines[7], lines[50] = 'photos/1.jpg,"big cat', 'photos/2.jpg,"a "b" c', 'photos/2.jpg,12" wide"'
    lines[9] = 'photos/3.jpg,"open, and one field more'
    listing = Listing()
    rows = list(table(photos / "t.csv", "file,caption\n" + "\n".join(lines)).rows(listing))
    texts = [row.parts["txt"].data.decode() if "txt" in row.parts else row.parts["jpg"] for row in rows]  # type: ignore[union-attr]
    assert len(texts) == 60
    assert (texts[5], texts[6], texts[7], texts[50]) == ('"big cat', "caption 6", '"a "b" c', '12" wide"')
    fault = texts[9]
    assert isinstance(fault, FaultRef)
    assert fault.reason == "a quote that opens in this line is not closed; expected 2 fields, found 3"
    assert rows[9].origin == "t.csv, line 11"
    assert [note for note in listing.notes if "first is line 7" in note]


def test_a_quote_that_the_end_of_the_file_leaves_open_names_its_line(tmp_path: Path) -> None:
    listing = Listing()
    source = table(tmp_path / "t.csv", 'name,text\na,b\nc,"open\n' + "x,y\n" * 50)
    assert [row.key for row in source.rows(listing)] == [f"{number:09d}" for number in range(52)]
    assert "read as they are: 1, the first is line 3" in listing.notes[0]


def test_line_breaks_in_quotes_are_no_open_quotes(tmp_path: Path) -> None:
    text = 'id,text,n\r\n1,"a cat, big,\r\non a mat, at home,\r\n2 of them",5\r\n2,"""b""",6\r\n'
    samples, report = imported(table(tmp_path / "t.csv", text), tmp_path / "out")
    assert report.failed == 0
    assert samples["1"]["txt"] == b"a cat, big,\r\non a mat, at home,\r\n2 of them"
    assert samples["2"]["txt"] == b'"b"'


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.json.gz"])
@pytest.mark.parametrize("indent", [None, 1])
def test_a_list_in_a_file_of_lines_has_rows(name: str, indent: int | None, tmp_path: Path) -> None:
    rows = [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}]
    data = ("\ufeff" + json.dumps(rows, indent=indent)).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    source = open_source(str(tmp_path / name), kind=None, options=SourceOptions())
    samples, _ = imported(source, tmp_path / "out")
    assert samples == {"a": {"txt": b"x"}, "b": {"txt": b"y"}}


def test_lines_that_are_lists_are_no_list(tmp_path: Path) -> None:
    source = table(tmp_path / "t.jsonl", '[{"text": "x"}]\n{"text": "y"}\n', kind="jsonl")
    samples, report = imported(source, tmp_path / "out", max_failures=1)
    assert [*samples.values()] == [{"txt": b"y"}]
    assert reasons(report) == {"t.jsonl, line 1": "expected an object of JSON, found list"}


@pytest.mark.parametrize("name", ["t.json", "t.jsonl"])
@pytest.mark.parametrize("encoding", ["cp1252", "utf-16-le"])
def test_json_in_other_encodings_names_the_command(name: str, encoding: str, tmp_path: Path) -> None:
    text = '{"text": "née"}'
    path = tmp_path / name
    path.write_bytes((f"[{text}]" if name == "t.json" else f"{text}\n").encode(encoding))
    source = TextTableSource(path=str(path), kind="jsonl")
    with pytest.raises(ConfigError, match=f"iconv -f {'CP1252' if encoding == 'cp1252' else 'UTF-16LE'} -t UTF-8"):
        list(source.rows(Listing()))
