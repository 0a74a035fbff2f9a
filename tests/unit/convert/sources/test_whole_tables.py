"""All rows of a table decide what its columns are, whatever its first rows, its types and its names are."""

from __future__ import annotations

import base64
import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from loader.convert.importing import PictureOptions, list_rows, write_trial
from loader.convert.rows.shard_layout import ShardLayout
from loader.convert.sources.source import Listing
from loader.convert.sources.table_source import ArrowTableSource, TextTableSource
from loader.convert.tables.source_options import SourceOptions
from loader.errors import ConfigError
from tests.imports import imported, picture, reasons

MEDIA = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def text_table(path: Path, text: str | bytes, **columns: Any) -> TextTableSource:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    kind: Any = path.suffix[1:]
    return TextTableSource(path=str(path), kind=kind, columns=SourceOptions(**columns))


def parquet_table(path: Path, table: pa.Table, *, rows: int | None = None, **columns: Any) -> ArrowTableSource:
    parquet.write_table(table, path, row_group_size=rows)
    return ArrowTableSource(path=str(path), kind="parquet", columns=SourceOptions(**columns))


def photos(folder: Path, *names: str) -> None:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))


def rows_left_out(report: Any) -> dict[str, int]:
    return {entry.reason: entry.count for entry in report.account.left_out if entry.unit == "rows"}


@pytest.mark.parametrize("name", ["t.parquet", "t.jsonl", "t.json"])
def test_numbers_that_json_does_not_have_are_counted(name: str, tmp_path: Path) -> None:
    numbers = [1.0, float("nan"), None, 2.0]
    rows: list[dict[str, Any]] = [{"text": f"t{n}", "a": number, "b": None} for n, number in enumerate(numbers)]
    rows[3]["b"] = [{"c": 1.0}, {"c": -float("inf")}]
    texts = [json.dumps(row) for row in rows]
    source: Any
    if name == "t.parquet":
        source = parquet_table(tmp_path / name, pa.Table.from_pylist(rows))
    else:
        text = "\n".join(texts) if name == "t.jsonl" else f"[{','.join(texts)}]"
        source = replace(text_table(tmp_path / name, text), kind="jsonl")
    samples, report = imported(source, tmp_path / "out")
    assert report.changed == {"numbers_lost": 2}
    place = {"t.parquet": "row 1", "t.jsonl": "line 2", "t.json": "element 1"}[name]
    assert report.first_changed == {"numbers_lost": f"{name}, {place}"}
    assert [json.loads(sample["json"])["a"] for _, sample in sorted(samples.items())] == [1, None, None, 2]


# ------------------------------------------------------------------------------------------------ late columns


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_picture_column_that_starts_late_has_pictures(
    kind: Literal["csv", "jsonl", "parquet"], tmp_path: Path
) -> None:
    photos(tmp_path, "late.jpg")
    rows = [{"picture": None, "caption": f"c{n}"} for n in range(300)] + [{"picture": "late.jpg", "caption": "last"}]
    if kind == "csv":
        text = "".join(f"{row['picture'] or ''},{row['caption']}\n" for row in rows)
        source: Any = text_table(tmp_path / "t.csv", f"picture,caption\n{text}")
    elif kind == "jsonl":
        source = text_table(tmp_path / "t.jsonl", "\n".join(map(json.dumps, rows)))
    else:
        source = parquet_table(tmp_path / "t.parquet", pa.Table.from_pylist(rows), rows=50)
    samples, report = imported(source, tmp_path / "out")
    assert samples == {"late": {"jpg": picture(0), "txt": b"last"}}
    assert rows_left_out(report) == {"L120": 300}


@pytest.mark.parametrize("shuffle", [None, 3])
def test_embedded_pictures_may_be_null_in_the_first_row_groups(shuffle: int | None, tmp_path: Path) -> None:
    pictures = [None] * 120 + [{"bytes": picture(n), "path": None} for n in range(3)] + [None]
    table = pa.table({"photo": pa.array(pictures, MEDIA), "text": [f"t{n}" for n in range(124)]})
    source = parquet_table(tmp_path / "t.parquet", table, rows=40)
    samples, report = imported(source, tmp_path / "out", layout=ShardLayout(shuffle_seed=shuffle))
    assert samples == {f"{n + 120:09d}": {"jpg": picture(n), "txt": f"t{n + 120}".encode()} for n in range(3)}
    assert rows_left_out(report) == {"L120": 121}
    kept = ArrowTableSource(path=source.path, kind="parquet", columns=SourceOptions(keep_text_only=True))
    samples, report = imported(kept, tmp_path / "kept", layout=ShardLayout(shuffle_seed=shuffle))
    assert len(samples) == 124
    assert samples["000000000"] == {"txt": b"t0"}
    assert report.account.is_complete


def test_the_first_of_several_files_may_have_no_picture(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    parquet.write_table(pa.table({"image": pa.nulls(2), "text": ["a", "b"]}), folder / "0.parquet")
    images = pa.array([{"bytes": picture(1), "path": None}], MEDIA)
    parquet.write_table(pa.table({"image": images, "text": ["c"]}), folder / "1.parquet")
    samples, report = imported(ArrowTableSource(path=str(folder), kind="parquet"), tmp_path / "out")
    assert samples == {"1/000000000": {"jpg": picture(1), "txt": b"c"}}
    assert rows_left_out(report) == {"L120": 2}


def test_one_of_several_pictures_may_be_missing(tmp_path: Path) -> None:
    photos(tmp_path, "a.jpg", "b.png")
    source = text_table(tmp_path / "t.csv", "image,mask\na.jpg,b.png\na.jpg,\n")
    samples, report = imported(source, tmp_path / "out")
    assert [sorted(parts) for parts in samples.values()] == [["image.jpg", "mask.png"], ["image.jpg"]]
    assert report.account.is_complete


def test_a_column_of_text_that_names_a_file_late_is_noted(tmp_path: Path) -> None:
    photos(tmp_path, "a.jpg")
    lines = [f"{n},note {n}" for n in range(200)] + ["200,a.jpg"]
    listing = Listing()
    rows = list(text_table(tmp_path / "t.csv", "number,remark\n" + "\n".join(lines)).rows(listing))
    assert len(rows) == 201
    assert "column 'remark' has files in some rows, such as 'a.jpg'" in listing.notes[0]


def test_a_column_of_numbers_that_has_text_late_is_text(tmp_path: Path) -> None:
    lines = [f"{n},a" for n in range(200)] + ["12a,b"]
    source = text_table(tmp_path / "t.csv", "code,caption\n" + "\n".join(lines))
    samples, _ = imported(source, tmp_path / "out")
    assert samples["000000007"]["json"] == b'{"code":"7"}'


def test_files_that_are_missing_among_others_fail_with_their_reason(tmp_path: Path) -> None:
    names = [f"{n}.jpg" for n in range(4)]
    photos(tmp_path, *names[:2])
    samples, report = imported(text_table(tmp_path / "t.csv", "f\n" + "\n".join(names)), tmp_path / "o", max_failures=2)
    assert len(samples) == 2
    assert [(e.reason, e.count) for e in report.account.failed if e.unit == "rows"] == [("F102", 2)]


@pytest.mark.parametrize("prefix", ["", "data:image/jpeg;base64,"])
@pytest.mark.parametrize("kind", ["tsv", "jsonl", "parquet"])
def test_pictures_in_base64_are_pictures(kind: str, prefix: str, tmp_path: Path) -> None:
    rows = [{"image": prefix + base64.b64encode(picture(n)).decode(), "question": f"q{n}"} for n in range(3)]
    if kind == "parquet":
        source: Any = parquet_table(tmp_path / "t.parquet", pa.Table.from_pylist(rows))
    elif kind == "tsv":
        text = "".join(f"{row['image']}\t{row['question']}\n" for row in rows)
        source = text_table(tmp_path / "t.tsv", f"image\tquestion\n{text}")
    else:
        source = text_table(tmp_path / "t.jsonl", "\n".join(map(json.dumps, rows)))
    samples, _ = imported(source, tmp_path / "out")
    assert samples["000000002"] == {"jpg": picture(2), "txt": b"q2"}


# ------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_any_name_of_a_column_is_a_name(kind: str, tmp_path: Path) -> None:
    names = ["left image", "左", "右", "a/b.c", "image.path", "x", "größe"]
    photos(tmp_path, "0.jpg", "1.jpg", "2.jpg", "3.jpg", "4.jpg")
    values = ["0.jpg", "1.jpg", "2.jpg", "3.jpg", "4.jpg", "n", "7"]
    if kind == "csv":
        source: Any = text_table(tmp_path / "t.csv", f"{','.join(names)}\n{','.join(values)}\n")
    else:
        source = parquet_table(tmp_path / "t.parquet", pa.table({n: [v] for n, v in zip(names, values, strict=True)}))
    samples, _ = imported(source, tmp_path / "out")
    (parts,) = samples.values()
    assert parts.keys() == {
        *("left_image.jpg", "column.jpg", "2.column.jpg", "a_b_c.jpg", "image_path.jpg", "json"),
    }
    assert parts["2.column.jpg"] == picture(2)
    assert set(json.loads(parts["json"])) == {"x", "größe"}


def test_repeated_and_empty_names_get_numbers(tmp_path: Path) -> None:
    source = text_table(tmp_path / "t.csv", ",a,a, \nw,x,y,z\n")
    assert [column.name for column in source.describe()] == ["column_1", "a", "a_3", "column_4"]
    table = pa.Table.from_arrays([pa.array(["x"]), pa.array(["y"])], names=["a", "a"])
    with pytest.raises(ConfigError, match="the name 'a' is that of 2 columns"):
        parquet_table(tmp_path / "t.parquet", table).describe()


def test_files_below_the_table_are_found_by_their_names(tmp_path: Path) -> None:
    photos(tmp_path / "data", "photos/big/a.jpg", "photos/big/b.jpg", "photos/small/a.jpg")
    source = text_table(tmp_path / "data/t.csv", "file,caption\nb.jpg,y\nphotos/big/a.jpg,z\na.jpg,x\n")
    samples, report = imported(source, tmp_path / "out", max_failures=1)
    assert samples == {"b": {"jpg": picture(1), "txt": b"y"}, "photos/big/a": {"jpg": picture(0), "txt": b"z"}}
    assert reasons(report) == {"t.csv, line 4": "'a.jpg' may be photos/big/a.jpg or photos/small/a.jpg"}
    listing = Listing()
    list(source.rows(listing))
    assert listing.notes == [
        f"paths such as 'b.jpg' lead to no file: photos/big/b.jpg in {tmp_path}/data has this name"
    ]


def test_a_table_of_plain_paths_lists_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos(tmp_path, "big/a.jpg", "big/b.jpg")
    listed: list[object] = []
    scandir = os.scandir

    def listing(path: str) -> object:
        listed.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listing)
    source = text_table(tmp_path / "t.csv", "file,caption\nbig/a.jpg,x\nbig/b.jpg,y\n")
    assert (len(list(source.rows(Listing()))), listed) == (2, [])
    source = text_table(tmp_path / "t.csv", "file,caption\nbig/a.jpg,x\nb.jpg,y\n")
    assert (len(list(source.rows(Listing()))), listed) == (2, [f"{tmp_path}/", f"{tmp_path}/big/"])


# ------------------------------------------------------------------------------------- lines and encodings


def test_a_tsv_of_captions_without_a_header_has_a_sample_for_each_line(tmp_path: Path) -> None:
    captions = ['"a cat', "a dog", 'a "big" dog', '"quoted"', '"half" quoted', 'end"', '"he said ""hi"""', "12'"]
    text = "".join(f"https://x.org/{n}.jpg\t{caption}\n" for n, caption in enumerate(captions))
    listing = Listing()
    rows: Any = list(text_table(tmp_path / "t.tsv", text).rows(listing))
    assert [row.parts["txt"].data.decode() for row in rows] == [*captions[:6], 'he said "hi"', "12'"]
    assert listing.notes == [
        f"the first line of {tmp_path}/t.tsv is data and names no columns: they are column_1, column_2"
    ]


def test_a_tsv_that_quotes_all_fields_loses_its_quotes(tmp_path: Path) -> None:
    source = text_table(tmp_path / "t.tsv", '"id"\t"text"\n"a"\t"one\ttab"\n"b"\t"two\nlines"\n"c"\t"three"\n')
    samples, _ = imported(source, tmp_path / "out")
    assert samples == {"a": {"txt": b"one\ttab"}, "b": {"txt": b"two\nlines"}, "c": {"txt": b"three"}}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_marks_of_encodings_and_ends_of_lines_are_understood(
    encoding: str, end: str, kind: str, tmp_path: Path
) -> None:
    lines = ["id,text", "a,größe", "b,x"] if kind == "csv" else ['{"id":"a","text":"größe"}', '{"id":"b","text":"x"}']
    if kind == "jsonl" and end == "\r":
        pytest.skip("lines of JSON end with a line feed")
    listing = Listing()
    source = text_table(tmp_path / f"t.{kind}", "".join(line + end for line in lines).encode(encoding))
    samples, _ = imported(source, tmp_path / "out")
    assert samples == {"a": {"txt": "größe".encode()}, "b": {"txt": b"x"}}
    list(source.rows(listing))
    assert bool(listing.notes) == (encoding != "utf-8-sig")


def test_rows_that_are_not_utf8_are_named(tmp_path: Path) -> None:
    source = text_table(tmp_path / "t.csv", "size,text\n1,größe\n2,b\n".encode("latin-1"))
    samples, report = imported(source, tmp_path / "out", max_failures=1)
    assert samples == {"000000001": {"txt": b"b", "json": b'{"size":2}'}}
    assert reasons(report) == {"t.csv, line 2": "it is not UTF-8 text"}


# ------------------------------------------------------------------------------------------------ Arrow types


VARIANTS = ("binary_view", "large_binary", "dictionary", "struct of views", "struct of dictionaries")


def variant(name: str) -> pa.Array:
    data = [picture(0), None, picture(2)]
    structs = [None if one is None else {"bytes": one, "path": None} for one in data]
    match name:
        case "binary_view":
            return pa.array(data, pa.binary_view())
        case "large_binary":
            return pa.array(data, pa.large_binary())
        case "dictionary":
            return pa.array(data, pa.binary()).dictionary_encode()
        case "struct of views":
            return pa.array(structs, pa.struct([("bytes", pa.binary_view()), ("path", pa.string_view())]))
    return pa.StructArray.from_arrays(
        [pa.array(data, pa.binary()).dictionary_encode(), pa.array([""] * 3).dictionary_encode()],
        names=["bytes", "path"],
    )


LISTS = {
    f"{kind.__name__} of {one}": kind(one)
    for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)
    for one in (pa.binary(), pa.large_binary(), pa.binary_view())
} | {"fixed size": pa.list_(pa.binary(), 2)}


def arrow_file(path: Path, table: pa.Table) -> ArrowTableSource:
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    return ArrowTableSource(path=str(path), kind="arrow")


@pytest.mark.parametrize("name", VARIANTS)
def test_pictures_of_any_arrow_type_are_pictures(name: str, tmp_path: Path) -> None:
    texts = pa.array(["a", "b", "c"], pa.string_view())
    table = pa.table({"image": variant(name), "caption": texts, "tag": texts.cast(pa.string()).dictionary_encode()})
    source = arrow_file(tmp_path / "t.arrow", table)
    for seed in (None, 1):
        samples, report = imported(source, tmp_path / f"out{seed}", layout=ShardLayout(shuffle_seed=seed))
        assert samples["000000002"] == {"jpg": picture(2), "txt": b"c", "json": b'{"tag":"c"}'}
        assert (len(samples), rows_left_out(report)) == (2, {"L120": 1})


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_any_arrow_type_are_lists_of_pictures(name: str, tmp_path: Path) -> None:
    pictures = [[picture(0), picture(1)], None if name == "fixed size" else [], [picture(2), picture(3)]]
    images = pa.array(pictures, LISTS[name])
    source = arrow_file(tmp_path / "t.arrow", pa.table({"images": images, "caption": ["a", "b", "c"]}))
    samples, _ = imported(source, tmp_path / "out")
    assert samples["000000001"] == {"txt": b"b"}
    assert samples["000000002"] == {"images.0.jpg": picture(2), "images.1.jpg": picture(3), "txt": b"c"}


@pytest.mark.parametrize("form", ["parquet", "arrow", "compressed"])
def test_tables_of_polars(form: str, tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "image": [None, picture(1), picture(2)],
            "caption": ["a", "b", None],
            "kind": pl.Series(["x", "x", "y"], dtype=pl.Categorical),
            "tags": [["p"], [], None],
        }
    )
    path = tmp_path / ("t.parquet" if form == "parquet" else "t.arrow")
    if form == "parquet":
        frame.write_parquet(path)
    else:
        frame.write_ipc(path, compression="zstd" if form == "compressed" else "uncompressed")
    source = ArrowTableSource(path=str(path), kind="parquet" if form == "parquet" else "arrow")
    samples, report = imported(source, tmp_path / "out")
    assert samples == {
        "000000001": {"jpg": picture(1), "txt": b"b", "json": b'{"kind":"x","tags":[]}'},
        "000000002": {"jpg": picture(2), "txt": b"", "json": b'{"kind":"y","tags":null}'},
    }
    assert rows_left_out(report) == {"L120": 1}


# ------------------------------------------------------------------------------------------------ conversations


def test_chats_in_tables_keep_text_only_rows(tmp_path: Path) -> None:
    photos(tmp_path, "a.jpg", "b.jpg")
    turns = [{"role": "user", "content": "<image> hi"}]
    table = pa.table(
        {
            "messages": pa.array([turns] * 4),
            "images": pa.array([[None, "a.jpg"], [], None, ["b.jpg", ""]], pa.list_(pa.string())),
        }
    )
    samples, report = imported(parquet_table(tmp_path / "t.parquet", table), tmp_path / "out")
    assert [sorted(parts) for parts in samples.values()] == [
        ["images.0.jpg", "json"],
        ["json"],
        ["json"],
        ["images.0.jpg", "json"],
    ]
    assert report.account.is_complete


def test_a_chat_that_is_text_is_json_and_its_picture_may_be_missing(tmp_path: Path) -> None:
    photos(tmp_path, "a.jpg")
    turns = json.dumps([{"from": "human", "value": "hi"}])
    table = pa.table({"conversations": [turns] * 3, "image": [None, "a.jpg", ""], "n": [1, 2, 3]})
    samples, report = imported(parquet_table(tmp_path / "t.parquet", table), tmp_path / "out")
    assert report.account.is_complete
    assert [sorted(parts) for parts in samples.values()] == [["json"], ["jpg", "json"], ["json"]]
    assert json.loads(samples["000000000"]["json"]) == {"conversations": json.loads(turns), "n": 1}


def test_first_rows_whose_files_are_missing_fail_with_file_and_row(tmp_path: Path) -> None:
    photos(tmp_path, "late.jpg")
    names = [f"missing{n}.jpg" for n in range(120)] + ["late.jpg"]
    table = pa.table({"messages": pa.array([[{"role": "user", "content": "hi"}]] * 121), "image": names})
    samples, report = imported(parquet_table(tmp_path / "t.parquet", table), tmp_path / "out", max_failures=120)
    assert [*samples] == ["late"]
    assert "t.parquet, row 0" in reasons(report)
    assert [(e.reason, e.count) for e in report.account.failed if e.unit == "rows"] == [("F102", 120)]


def test_a_trial_passes_rows_that_cannot_be_read(tmp_path: Path) -> None:
    photos(tmp_path, "late.jpg")
    names = [f"missing{n}.jpg" for n in range(150)] + ["late.jpg"]
    source = text_table(tmp_path / "t.csv", "image\n" + "\n".join(names))
    with (
        list_rows([source], shuffled=False) as listed,
        write_trial(listed, PictureOptions()) as trial,
        tarfile.open(Path(trial) / "first_samples.tar") as tar,
    ):
        assert tar.getnames() == ["late.jpg"]
    with (
        list_rows([text_table(tmp_path / "u.csv", "image\nmissing.jpg\n")], shuffled=False) as listed,
        pytest.raises(ConfigError, match=r"none of the first 1 sample can be read; u.csv, line 2: there is no file"),
        write_trial(listed, PictureOptions()),
    ):
        pass


def test_texts_of_arrow_that_are_not_utf8_fail_alone(tmp_path: Path) -> None:
    photos(tmp_path, "a.jpg")
    data = pa.py_buffer(b"x\xffy")
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in range(4)))
    texts = pa.Array.from_buffers(pa.string(), 3, [None, offsets, data])
    table = pa.table({"image": ["a.jpg"] * 3, "caption": texts, "id": ["1", "2", "3"]})
    samples, report = imported(parquet_table(tmp_path / "t.parquet", table), tmp_path / "out", max_failures=1)
    assert [*samples] == ["1", "3"]
    assert "row 1" in next(iter(reasons(report)))


@pytest.mark.parametrize("shuffle", [None, 2])
def test_a_null_among_the_pictures_of_a_chat_is_none(shuffle: int | None, tmp_path: Path) -> None:
    images = pa.array([[None, {"bytes": picture(1), "path": None}], [], None], pa.list_(MEDIA))
    turns = [{"role": "user", "content": "hi"}]
    source = parquet_table(tmp_path / "t.parquet", pa.table({"messages": [turns] * 3, "images": images}))
    samples, report = imported(source, tmp_path / "out", layout=ShardLayout(shuffle_seed=shuffle))
    assert samples["000000000"]["images.0.jpg"] == picture(1)
    assert [*map(len, samples.values())].count(1) == 2
    assert report.account.is_complete
