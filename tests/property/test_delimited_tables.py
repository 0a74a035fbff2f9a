"""Records of CSV and TSV files are those that Python's csv module reads with the right dialect, or they are named."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Literal

import pytest

from loader.convert.tables.delimited import DelimitedReader
from loader.convert.tables.records import Record, open_text_table
from loader.errors import ConfigError

_NAMES = ("id", "file_name", "caption", "Höhe", "split point", "source", "score")
_WORDS = ("a", "red", "cat", "on", "the", "mat", "née", "of", "2", "12", "tall", "it's", "#tag")
_ENCODINGS = ("utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252")
_BREAKS = ("\n", "\n", "\r\n", "\r\n", "\r")


def _text(draw: random.Random, delimiter: str) -> str:
    words = [draw.choice(_WORDS) for _ in range(draw.randint(1, 9))]
    for extra in (delimiter, '"', ", ", "; ", "\n", "|"):
        if draw.random() < 0.15:
            words.insert(draw.randint(0, len(words)), extra)
    return " ".join(words).strip(" ")


def _value(draw: random.Random, kind: str, delimiter: str) -> str:
    if kind != "id" and draw.random() < 0.05:
        return ""
    match kind:
        case "id":
            return str(draw.randint(1, 10**6))
        case "file":
            return f"photos/{draw.randint(1, 10**6)}.jpg"
        case "number":
            return f"{draw.uniform(-9, 9):.3f}"
    return _text(draw, delimiter)


def _table(draw: random.Random) -> tuple[str, str, list[str] | None, list[list[str]]]:
    """Return the name of a table, its text, its header, and its rows."""
    delimiter = draw.choice(",;\t|")
    kinds = [
        draw.choice(["id", "file"]),
        *(draw.choice(["text", "text", "number", "file"]) for _ in range(draw.randint(1, 4))),
    ]
    draw.shuffle(kinds)
    rows = [[_value(draw, kind, delimiter) for kind in kinds] for _ in range(draw.randint(2, 60))]
    header = draw.sample(_NAMES, len(kinds)) if draw.random() < 0.7 else None
    # What Python's csv reads are the values: breaks within a field are line ends of the file.
    end = draw.choice(_BREAKS)
    rows = [[value.replace("\n", end) for value in row] for row in rows]
    out = io.StringIO(newline="")
    style: Literal[0, 1, 2] = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    writer = csv.writer(out, delimiter=delimiter, quoting=style, lineterminator=end)
    before = []
    if delimiter != "\t" and draw.random() < 0.15:
        before.append(f"sep={delimiter}")
    in_comment = header is not None and draw.random() < 0.15
    if in_comment or draw.random() < 0.15:
        before += ["# made by a program, on a Monday; see its page", "#"][: draw.randint(1, 2)]
    if header is not None and in_comment:
        before.append("# " + delimiter.join(header))
    elif header is not None:
        writer.writerow(header)
    writer.writerows(rows)
    text = out.getvalue()
    if draw.random() < 0.15 and delimiter != "\t":
        # Blanks before quotes: written again, so that none is added within a field.
        out = io.StringIO(newline="")
        for row in ([] if header is None or in_comment else [header]) + rows:
            fields = [
                f'"{value.replace(chr(34), 2 * chr(34))}"'
                if style == csv.QUOTE_ALL or set(value) & set(f'{delimiter}"\r\n')
                else value
                for value in row
            ]
            out.write(f"{delimiter} ".join(fields) + end)
        text = out.getvalue()
    name = "t.tsv" if delimiter == "\t" and draw.random() < 0.7 else "t.csv"
    return name, "".join(line + end for line in before) + text, header, rows


def _records(path: Path) -> tuple[DelimitedReader, list[Record]]:
    with open_text_table(str(path)) as file:
        reader = DelimitedReader(file, kind=path.suffix[1:], path=str(path))
        return reader, [*reader.records()]


@pytest.mark.parametrize("seed", range(200))
@pytest.mark.sampled(5)
def test_every_row_is_as_in_python_or_is_named(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    name, text, header, rows = _table(draw)
    encoding = draw.choice(_ENCODINGS)
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    # Tables in other encodings, or the rows with other characters, name the command.
    is_other = encoding == "utf-16-le" or (encoding == "cp1252" and not "".join(header or ()).isascii())
    if is_other:
        with pytest.raises(ConfigError, match=f"iconv -f {encoding.replace('-le', 'LE').upper()} -t UTF-8 {path}"):
            _records(path)
        return
    reader, records = _records(path)
    assert reader.has_header == (header is not None)
    assert reader.names == (header or [f"column_{n + 1}" for n in range(len(rows[0]))])
    assert len(records) == len(rows)
    for record, row in zip(records, rows, strict=True):
        if encoding == "cp1252" and not "".join(row).isascii():
            assert "iconv -f CP1252 -t UTF-8" in record.hint
        else:
            assert [value or "" for value in record.values.values()] == row
