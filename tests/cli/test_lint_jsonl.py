"""``energon lint`` of a JSONL file: its index, and every line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.cli.run_energon import RunEnergon

LINES = '{"text": "one"}\n{"text": "two"}\n{"text": "three"}\n'


Lint: TypeAlias = Callable[..., tuple[int, list[tuple[str, int | None]]]]


@pytest.fixture
def texts(tmp_path: Path, energon: RunEnergon) -> Path:
    path = tmp_path / "texts.jsonl"
    path.write_text(LINES)
    assert energon("prepare", path).code == 0
    return path


@pytest.fixture
def lint(texts: Path, energon: RunEnergon) -> Lint:
    """Overwrite bytes of an indexed file, and return the findings as (code, offset)."""

    def run(data: str | bytes, *flags: object) -> tuple[int, list[tuple[str, int | None]]]:
        texts.write_bytes(data.encode() if isinstance(data, str) else data)
        done = energon("lint", texts, "--json", *flags)
        return done.code, [(found["code"], found["offset"]) for found in done.json["findings"]]

    return run


@pytest.mark.parametrize("level", ["headers", "bytes", "decode"])
def test_a_sound_file_exits_0(texts: Path, energon: RunEnergon, level: str) -> None:
    done = energon("lint", texts, "--level", level)
    assert (done.code, done.err) == (0, "")
    assert f"no findings: 3 samples, level {level}" in done.out


def test_a_last_line_without_a_line_break_is_fine(texts: Path, energon: RunEnergon) -> None:
    texts.write_text(LINES.rstrip("\n"))
    energon("prepare", texts)
    assert energon("lint", texts).code == 0


def test_every_wrong_line_is_named_with_its_number_and_offset(texts: Path, energon: RunEnergon) -> None:
    texts.write_bytes(b'{"a": 1}\n[2]\n{"b":\n{"c": "\xff"}\n{"d": 3}{"e": 4}\n{"f": 5}\n')
    done = energon("lint", texts)
    assert done.code == 1
    assert "error   E403  texts.jsonl at byte 9: line 2 is not one JSON object: it is '[2]'" in done.out
    assert "error   E403  texts.jsonl at byte 13: line 3 is not one JSON object: it is '{\"b\":'" in done.out
    assert (
        "error   E404  texts.jsonl at byte 19: line 4 is not UTF-8: invalid start byte (byte 7 of the line)" in done.out
    )
    assert "error   E403  texts.jsonl at byte 30: line 5 is not one JSON object: JSON is malformed" in done.out
    assert "5 errors" in done.out, "and the index is of another file"


def test_the_index_alone_does_not_reveal_faults_of_parsing(
    lint: Lint,
) -> None:
    wrong = LINES.replace('"two"', 'two"x')
    assert lint(wrong, "--level", "headers") == (0, [])
    assert lint(wrong, "--level", "bytes") == (1, [("E403", 16)])


@pytest.mark.parametrize("level", ["headers", "decode"])
def test_all_lines_of_a_file_without_an_index_are_checked(texts: Path, energon: RunEnergon, level: str) -> None:
    (texts.parent / "texts.jsonl.idx").unlink()
    done = energon("lint", texts, "--level", level, "--json")
    assert (done.code, done.json["findings"], done.json["samples"]) == (0, [], 3)
    texts.write_text(LINES.replace('"two"', 'two"x'))
    done = energon("lint", texts, "--level", level, "--json")
    assert (done.code, [finding["code"] for finding in done.json["findings"]]) == (1, ["E403"])


def test_a_damaged_index_differs_from_a_stale_one(texts: Path, energon: RunEnergon) -> None:
    index = texts.parent / "texts.jsonl.idx"
    index.write_bytes(index.read_bytes()[:-3])
    assert "E401" in energon("lint", texts, "--level", "headers").out
    index.unlink()
    energon("prepare", texts)
    assert "E402" not in energon("lint", texts).out


@pytest.mark.parametrize("level", ["headers", "decode"])
def test_lines_added_since_the_index_are_found(lint: Lint, level: str) -> None:
    code, found = lint(LINES + '{"text": "four"}\n', "--level", level)
    assert (code, found) == (1, [("E402", None)])


def test_lines_moved_within_the_same_size_are_found_where_they_begin(
    lint: Lint,
) -> None:
    moved = '{"text": "oneone"}\n{"text": ""}\n{"text": "three"}\n'
    assert len(moved) == len(LINES)
    assert lint(moved, "--level", "headers") == (0, []), "both ends are right"
    assert lint(moved) == (1, [("E402", 19)])


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ('{"text": "one", "more": "text"}\n{"text": "three"}\n', "at byte 32: the index has sample 1 at byte 16"),
        (
            '{"text": "one"}\n{"text": "two"}\n{"a": 1}\n{"a": 2}\n',
            "at byte 41: the index has 3 samples, and there are more",
        ),
    ],
    ids=["fewer", "more"],
)
def test_another_number_of_lines_of_the_same_size_is_found(
    texts: Path, energon: RunEnergon, lines: str, found: str
) -> None:
    assert len(lines) == len(LINES)
    texts.write_text(lines)
    assert found in energon("lint", texts).out


def test_offsets_that_do_not_ascend_are_found_without_the_file(texts: Path, energon: RunEnergon) -> None:
    index = texts.parent / "texts.jsonl.idx"
    data = index.read_bytes()
    index.write_bytes(data[:8] + data[:8] + data[16:])
    done = energon("lint", texts, "--level", "headers")
    assert done.code == 1
    assert "E402  texts.jsonl at byte 0: the index has sample 0 at byte 0, and the next at byte 0" in done.out
    assert "at byte 16: the index has sample 1 at byte 0; the file has it here" in energon("lint", texts).out


def test_an_index_with_a_sample_twice_is_found(texts: Path, energon: RunEnergon) -> None:
    index = texts.parent / "texts.jsonl.idx"
    data = index.read_bytes()
    index.write_bytes(data[:24] + data[16:])
    assert "at byte 32: the index has 4 samples, the file 3" in energon("lint", texts).out


def test_blank_lines_at_the_start_belong_to_the_first_sample(texts: Path, energon: RunEnergon) -> None:
    texts.write_text("\n\n" + LINES)
    energon("prepare", texts)
    done = energon("lint", texts)
    assert done.code == 0
    assert "0 errors, 1 warning" in done.out


def test_a_line_that_is_only_not_utf_8_is_found(lint: Lint) -> None:
    code, found = lint(LINES.encode().replace(b"two", b"tw\xf6"))
    assert (code, found) == (1, [("E404", 16)])


def test_blank_lines_and_a_byte_order_mark_are_only_noted(texts: Path, energon: RunEnergon) -> None:
    texts.write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n  \n{"b": 2}\n')
    energon("prepare", texts)
    done = energon("lint", texts)
    assert done.code == 0
    assert "W406  texts.jsonl at byte 0" in done.out
    assert "W405  texts.jsonl at byte 12: 2 in this file, skipped; the first is here" in done.out


@pytest.mark.parametrize("data", [b"", b"\n \n"], ids=["empty", "blank"])
def test_a_file_without_samples_is_an_error(lint: Lint, data: bytes) -> None:
    code, found = lint(data)
    assert code == 1
    assert "E407" in [code for code, _ in found]


def test_a_huge_line_that_is_no_object_is_not_read_to_its_end(texts: Path, energon: RunEnergon) -> None:
    texts.write_bytes(b"x" * (3 << 20))
    done = energon("lint", texts)
    assert done.code == 1
    assert "E403  texts.jsonl at byte 0: line 1 is not one JSON object: it is 'xxx" in done.out
    assert "some samples were not checked because of errors" in done.out


def test_it_stops_at_max_findings(texts: Path, energon: RunEnergon) -> None:
    texts.write_text("x\n" * 10)
    done = energon("lint", texts, "--max-findings", 3, "--json")
    assert (done.code, done.json["complete"], len(done.json["findings"])) == (1, False, 3)


def test_a_file_of_many_blocks_is_counted_and_compared_whole(texts: Path, energon: RunEnergon) -> None:
    line = '{"text": "' + "x" * 980 + '"}\n'
    texts.write_text(line * 2500)
    energon("prepare", texts)
    assert "no findings: 2,500 samples" in energon("lint", texts).out
    data = bytearray(texts.read_bytes())
    data[len(line) * 2400 + 3] = ord("\n")
    texts.write_bytes(data)
    done = energon("lint", texts)
    assert "line 2,401 is not one JSON object" in done.out
    assert f"E402  texts.jsonl at byte {len(line) * 2400 + 4}" in done.out


@pytest.mark.parametrize("flag", [["--split-parts", "train"], ["--fix"]], ids=["split-parts", "fix"])
def test_flags_that_a_jsonl_file_lacks_are_wrong_usage(texts: Path, energon: RunEnergon, flag: list[str]) -> None:
    assert energon("lint", texts, *flag).code == 2
