"""Elements of JSON files are found piece by piece: the same ones as in the whole, in little memory."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from loader.convert.annotations import json_document
from loader.convert.annotations.json_elements import decode, open_lists, read_elements
from loader.convert.tables import records
from loader.errors import FormatError, SampleError

VALUES: list[Any] = [
    {"a": 'x"]}, [\\', "b": [1, {"c": "\\\\"}], "NaN": "NaN, -Infinity"},
    "\\",
    ["é \u2028 \\u00e9", -1.5e-3, True, None],
    {},
    [],
    12,
    [[[{"d": "}" * 30}]]],
    -0.25,
]


def elements_of(path: Path) -> list[Any]:
    return [decode(element, object) for element in read_elements(str(path))]


@pytest.fixture(params=[1, 7, 64])
def piece_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(json_document, "_CHUNK_BYTES", request.param)
    return int(request.param)


@pytest.mark.usefixtures("piece_bytes")
@pytest.mark.parametrize("indent", [None, 3])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_elements_are_those_of_the_whole_file_whatever_its_pieces(tmp_path: Path, indent: int, mark: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(mark + json.dumps(VALUES, indent=indent, ensure_ascii=False))
    assert elements_of(path) == VALUES
    for name in ("data", 'da"ta'):
        path.write_text(mark + json.dumps({"x": [1], name: VALUES, "y": {"data": [1]}}, indent=indent))
        assert [decode(each, object) for each in read_elements(str(path), inside=(name,))] == VALUES
        with open_lists(str(path)) as lists:
            assert {key: value and len(value) for key, value in lists.items()} == {"x": 1, name: 8, "y": None}


@pytest.mark.usefixtures("piece_bytes")
def test_constants_of_python_become_null_outside_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    values = [*VALUES, {"e": [float("nan"), float("inf"), -float("inf")]}, {"f": "\\NaN"}, float("nan"), *VALUES]
    expected = [*VALUES, {"e": [None, None, None]}, {"f": "\\NaN"}, None, *VALUES]
    path.write_text(json.dumps(values))
    assert elements_of(path) == expected
    path.write_text(json.dumps({"data": values}))
    assert elements_of(path) == expected


@pytest.mark.usefixtures("piece_bytes")
@pytest.mark.parametrize("wrap", ["%s", '{"data": %s}'])
@pytest.mark.parametrize(
    "long", ['["\\"]}", "\\\\", {"a": [%s"]"]}]' % ('"[{",' * 80), '"%s"' % ("\\\\,]}" * 99), "1" * 400]
)
def test_an_element_above_the_limit_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrap: str, long: str
) -> None:
    monkeypatch.setattr(json_document, "CHECKED_JSON_BYTES", 200)
    path = tmp_path / "a.json"
    path.write_text(wrap % f'[{{"a": 1}}, {long} , "b", {long}]')
    first, second, third, last = read_elements(str(path))
    assert (decode(first, object), decode(third, object)) == ({"a": 1}, "b")
    for element in (second, last):
        with pytest.raises(SampleError, match="it is longer than 67,108,864 bytes"):
            decode(element, object)


def test_an_element_that_is_nested_too_deeply_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(f"[1, {'[' * 100_000}{']' * 100_000}, 2]")
    first, second, third = read_elements(str(path))
    assert (decode(first, int), decode(third, int)) == (1, 2)
    with pytest.raises(SampleError, match="nested too deeply"):
        decode(second, object)


@pytest.mark.usefixtures("piece_bytes")
@pytest.mark.parametrize(
    ("text", "fault", "column"),
    [
        ("[1,\n2 3]", "expected ',' or ']'", 3),
        ("[1,\n2,]", "trailing comma in array", 3),
        ("[1,\n tru]", "invalid character", 3),
        ('[1,\n{"a":"x\ty"}]', "invalid character", 8),
        ("[1,\n2", "truncated", 2),
        ('[1,\n"ab', "truncated", 4),
        ("[1,\n2] 3", "trailing characters", 4),
        ('{"a":\n1 2}', "expected ',' or '}'", 3),
        ('{"a":\n1,}', "trailing comma in object", 3),
        ('{"a"\n1}', "expected ':'", 1),
        ("{\n1: 2}", "object keys must be strings", 1),
        ("[\n<p>]", "invalid character", 1),
        ("[\n\0]", "invalid character", 1),
    ],
)
def test_damage_is_named_with_its_line_and_column(tmp_path: Path, text: str, fault: str, column: int) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        list(read_elements(str(path)))
    assert fault in caught.value.message
    assert f"line 2, column {column}" in caught.value.message


@pytest.mark.parametrize("form", ["[%s]", '{"data":\n[%s]}', "%s"])
def test_the_memory_of_a_file_is_that_of_a_few_elements(tmp_path: Path, form: str) -> None:
    path = tmp_path / ("a.json" if "[" in form else "a.jsonl")
    element = json.dumps({"id": 1, "text": "x" * 2000})
    path.write_text(form % ("\n" if form == "%s" else ",").join([element] * 10_000))
    tracemalloc.start()
    assert sum(1 for _ in read_elements(str(path))) == 10_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 << 20 < path.stat().st_size // 3


def test_a_line_above_the_limit_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "CHECKED_JSON_BYTES", 50)
    monkeypatch.setattr(records, "_BUFFER_BYTES", 16)
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"a": 1}}\n\n{{"b": "{"x" * 99}"}}\n[2]\r{{"c": 3}}\n{{"d": "{"x" * 99}"}}')
    with path.open("rb") as file:
        lines = list(records.bounded_lines(file))
    assert lines == [(1, b'{"a": 1}'), (3, None), (4, b"[2]"), (4, b'{"c": 3}'), (5, None)]
    places = [(element.place, element.fault) for element in read_elements(str(path))]
    assert places[1] == ("a.jsonl, line 3", records.TOO_LONG)
