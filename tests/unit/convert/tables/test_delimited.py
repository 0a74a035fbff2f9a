"""Delimiter, header and quotes of a table are those with which its lines agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.convert.sources.source import Listing
from loader.convert.sources.table_source import TextTableSource
from loader.convert.tables.delimited import DelimitedReader
from loader.convert.tables.dialect import HEAD_BYTES
from loader.convert.tables.records import open_text_table
from loader.errors import ConfigError


def read(folder: Path, text: str | bytes, name: str = "t.csv") -> tuple[list[str], list[list[str]]]:
    """Return the names of columns, empty if the table has none, and the values of its records."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with open_text_table(str(path)) as file:
        reader = DelimitedReader(file, kind=name[2:], path=str(path))
        rows = [[value or "" for value in record.values.values()] for record in reader.records()]
    return reader.names if reader.has_header else [], rows


@pytest.mark.parametrize("late", [0, 20_000])  # lines, many more than the first ones that are inspected
def test_the_delimiter_is_that_of_all_lines(late: int, tmp_path: Path) -> None:
    lines = ["weight,price;place", *["a lot, as I see;here"] * (late + 1), "none;there"]
    _, rows = read(tmp_path, "\n".join(lines))
    assert rows[-1] == ["none", "there"]


@pytest.mark.parametrize("line", ["x,short", "x,short,3,4", "x;short;3", '"x",short'])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_each_line_that_disagrees_behind_the_first_ones_is_named(name: str, line: str, tmp_path: Path) -> None:
    lines = ["id,text,n", *(f"a{n},some words,{n}" for n in range(6000))]
    lines[5000:5000] = [line, line]
    text = "\n".join(lines)
    path = tmp_path / name
    path.write_text(text if name == "t.csv" else text.replace(",", "\t"))
    assert path.stat().st_size > HEAD_BYTES
    with open_text_table(str(path)) as file:
        records = [*DelimitedReader(file, kind=name[2:], path=str(path)).records()]
    assert [(record.line, record.fault[:18]) for record in records if record.fault] == [
        (5001, "expected 3 fields,"),
        (5002, "expected 3 fields,"),
    ]
    valid = [[*record.values.values()] for record in records if not record.fault]
    assert valid == [[f"a{n}", "some words", str(n)] for n in range(6000)]


def test_numbers_with_a_decimal_comma_are_no_columns(tmp_path: Path) -> None:
    assert read(tmp_path, "1,5;2,5\n3,5;4,5\n") == ([], [["1,5", "2,5"], ["3,5", "4,5"]])


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_excel_names_the_delimiter_itself(name: str, tmp_path: Path) -> None:
    text = 'sep=;\r\nname;text, of a page\r\na;"b;c"\r\n'
    assert read(tmp_path, text, name) == (["name", "text, of a page"], [["a", "b;c"]])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("LJ001-0001|He came.|He came.\nLJ001-0002|She went.|She went.\nLJ002-0001|Oh.|Oh.\n", []),  # ids
        ("cat|a sleeping one\ndog|a large one\ncat|a red one\ndog|b\n", []),  # repeated classes
        ("photos/1.jpg|a\nphotos/2.jpg|b\n", []),
        ("2019|x\n2020|y\n", []),
        ("image.jpg|2019\nphotos/1.jpg|5\nphotos/2.jpg|x\n", []),  # a name of a file, as before
        ("country|2019|id\nDE|1.5|1\nFR|2.5|2\n", ["country", "2019", "id"]),  # a text above numbers
        ("prompt|answer\na|b\nc|d\n", ["prompt", "answer"]),
        ("id|n/a\n1|n/a\n2|3\n", ["id", "n/a"]),
    ],
)
def test_a_first_line_like_the_others_names_no_columns(text: str, names: list[str], tmp_path: Path) -> None:
    found, rows = read(tmp_path, text)
    assert found == names
    assert len(rows) == text.count("\n") - bool(names)


@pytest.mark.parametrize(
    ("text", "names", "count"),
    [
        ("# made by x, on Monday\n\n#\nid,text\n1,a\n", ["id", "text"], 1),
        ("##format=3\n#chrom,pos\nx,5\ny,6\n", ["chrom", "pos"], 2),
        ("# id, caption\n1, a\n2, b\n", ["id", "caption"], 2),
        ("#,name\n1,a\n2,b\n", ["#", "name"], 2),
        ("# a page of a book about it, 1998\n1,a\n2,b\n", [], 2),
        ("#cat,5\n#dog,6\nred,7\n", [], 3),  # values
    ],
)
def test_comments_are_no_records_and_may_name_the_columns(
    text: str, names: list[str], count: int, tmp_path: Path
) -> None:
    found, rows = read(tmp_path, text)
    assert (found, len(rows)) == (names, count)


def test_comments_are_counted_in_a_note(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("# made by x\n# in 2020\nid,text\n1,a\n")
    listing = Listing()
    list(TextTableSource(path=str(path), kind="csv").rows(listing))
    assert listing.notes == [f"comments of {path} were left out: 2 lines before the first record that begin with #"]


def test_fields_do_not_have_the_blanks_before_quotes(tmp_path: Path) -> None:
    assert read(tmp_path, 'id, text, n\n1, "a, b",  2\n3, "c\nd", 4\n') == (
        ["id", "text", "n"],
        [["1", "a, b", "2"], ["3", "c\nd", "4"]],
    )
    assert read(tmp_path, "id,text\n1, a\n2,b\n")[1][0] == ["1", " a"]  # not all lines have them


@pytest.mark.parametrize("column", [0, 1, 2])
def test_line_breaks_in_quotes_of_any_column_of_a_tsv(column: int, tmp_path: Path) -> None:
    row = ["x", "y", "z"]
    row[column] = "one\ntwo\nthree"
    text = "a\tb\tc\n" + "\t".join(f'"{value}"' if "\n" in value else value for value in row) + "\n4\t5\t6\n"
    assert read(tmp_path, text, "t.tsv") == (["a", "b", "c"], [row, ["4", "5", "6"]])


def test_fields_of_a_tsv_do_not_have_quotes_that_all_of_a_column_have(tmp_path: Path) -> None:
    assert read(tmp_path, 'id\ttext\n1\t"a"\n2\t"b"\n', "t.tsv")[1] == [["1", "a"], ["2", "b"]]
    assert read(tmp_path, 'id\ttext\n1\t"a"\n2\tb\n3\tc\n', "t.tsv")[1][0] == ["1", '"a"']


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "cp1252"])
def test_other_encodings_name_the_command_that_converts_them(encoding: str, tmp_path: Path) -> None:
    name = {"utf-16-le": "UTF-16LE", "utf-16-be": "UTF-16BE", "cp1252": "CP1252"}[encoding]
    with pytest.raises(ConfigError, match=rf"iconv -f {name} -t UTF-8 \S*t.csv > NEW"):
        read(tmp_path, "Höhe,text\n1,née\n".encode(encoding))
