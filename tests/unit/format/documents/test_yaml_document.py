from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import yaml

from loader.errors import ConfigError
from loader.format.documents.yaml_document import parse_yaml


def faults_of(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, file="x.yaml")
    assert caught.value.file == "x.yaml"
    return [(fault.place, fault.message) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: 1\nb: [x, 2.5, true]", {"a": 1, "b": ["x", 2.5, True]}),
        ('{"a": null}', {"a": None}),
        ("a: &x {k: 1}\nb: *x", {"a": {"k": 1}, "b": {"k": 1}}),
        ("a: &x {k: 1}\nb: {<<: *x, m: 2}", {"a": {"k": 1}, "b": {"k": 1, "m": 2}}),
        ("a: &x 3\nb: *x", {"a": 3, "b": 3}),
        ("? 1\n: one", {1: "one"}),
    ],
)
def test_plain_documents_are_read(text: str, value: object) -> None:
    assert parse_yaml(text, file="x.yaml") == value


def test_what_does_not_parse_is_reported_with_line_and_column() -> None:
    [(place, found)] = faults_of("a: 1\nb: [1, 2\nc: 3")
    assert place == "line 3, column 2"
    assert found.startswith("this is not plain YAML: while parsing a flow sequence")


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system [ls]",
        "a: !!python/name:os.system",
        "a: !!python/object/new:subprocess.Popen [ls]",
        "a: !mine {}",
    ],
)
def test_no_tag_constructs_an_object(text: str) -> None:
    [(_, found)] = faults_of(text)
    assert "could not determine a constructor for the tag" in found


def test_a_key_given_twice_is_reported_with_both_lines() -> None:
    assert faults_of("a: 1\nb: {c: 1, c: 2}\na: 2\na: 3") == [
        ("line 3", "'a' is given twice, first on line 1"),
        ("line 4", "'a' is given twice, first on line 1"),
        ("line 2", "'c' is given twice, first on line 2"),
    ]


@pytest.mark.parametrize("text", ["[" * 200_000, "{a: " * 5_000, "- " * 5_000 + "x"])
def test_deep_nesting_does_not_crash_the_parser(text: str) -> None:
    [(_, found)] = faults_of(text)
    assert "nested too deeply" in found


def test_references_that_expand_without_end_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    [(_, found)] = faults_of("\n".join(lines))
    assert "expand to too many values" in found


@pytest.mark.parametrize("merged", ["*b", "[*b, *b]", "[[1, 2], *b]"])
def test_mappings_that_are_merged_count_as_if_they_were_written(merged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each merge copies 200 keys, so that a small file would take minutes.
    base = "base: &b {" + ", ".join(f"k{n}: {n}" for n in range(200)) + "}\n"
    monkeypatch.setenv("ENERGON_MAX_DOCUMENT_BYTES", str(256 * 10_000))
    monkeypatch.setattr("yaml.CSafeLoader.construct_mapping", None)  # it is refused before a mapping is made
    [(_, found)] = faults_of(base + "".join(f"m{n}:\n  <<: {merged}\n" for n in range(200)))
    assert "expand to too many values" in found


def test_no_more_values_are_read_than_the_limit_of_bytes_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENERGON_MAX_DOCUMENT_BYTES", str(256 * 100))
    assert parse_yaml("[" + "a," * 90 + "]", file="x.yaml") == ["a"] * 90
    events = 0
    parse = yaml.parse

    def counted(*arguments: Any, **named: Any) -> Iterator[Any]:
        nonlocal events
        for event in parse(*arguments, **named):
            events += 1
            yield event

    monkeypatch.setattr("yaml.parse", counted)
    with pytest.raises(ConfigError, match="this document has more than 100 values") as caught:
        parse_yaml("[" + "a," * 12_000 + "]", file="x.yaml")
    assert events <= 102
    assert "ENERGON_MAX_DOCUMENT_BYTES=102400" in str(caught.value)


@pytest.mark.parametrize("text", ["a: 1", "a: [1", "!!python/name:os.system"])
def test_the_garbage_collector_runs_after_a_document_as_before(text: str) -> None:
    with suppress(ConfigError):
        parse_yaml(text, file="x.yaml")
    assert gc.isenabled()


def test_what_refers_to_itself_is_refused() -> None:
    [(place, found)] = faults_of("a: &x [1, *x]")
    assert place == "line 1, column 11"
    assert "*x refers to a value that contains it" in found


@pytest.mark.parametrize("text", ["when: 2024-99-99", "a: \x00", "a: \x1b["])
def test_values_that_yaml_cannot_hold_are_refused(text: str) -> None:
    [(_, found)] = faults_of(text)
    assert "this is not plain YAML" in found


@pytest.mark.parametrize("text", ["*nowhere", "a: 1\n---\nb: 2", "? [1]\n: 2"])
def test_other_faults_have_a_place(text: str) -> None:
    [(place, _)] = faults_of(text)
    assert place.startswith("line ")
