"""The expressions of the values inside json parts."""

from __future__ import annotations

import json
from pathlib import Path

from loader.format.documents.field_map import parse_field_expression
from loader.inspect import inspect_folder
from loader.prepare.contents.findings import json_expressions
from tests.cli.make_dataset import write_shard


def test_expressions_of_several_documents_are_merged_and_can_be_parsed() -> None:
    documents: list[dict[str, object]] = [
        {"a b": {"x]": 1}, "turns": [{"text": "hi"}]},
        {"turns": [], "id": 3, "a b": {}},
    ]
    found = json_expressions(("meta.json", document) for document in documents)
    assert found == (
        'meta.json[a b]["x]"]', "meta.json[turns]", "meta.json[turns][0][text]", "meta.json[id]", "meta.json[a b]",
    )  # fmt: skip
    for expression in found[:3]:
        [access] = parse_field_expression(expression)
        access.value(documents[0])


def test_hostile_documents_give_few_short_expressions() -> None:
    deep: dict[str, object] = {}
    for _ in range(500):
        deep = {"k": deep}
    wide = {f"k{number}": 0 for number in range(10_000)}
    assert json_expressions([("json", deep)]) == ("json[k][k][k][k][k]",)
    assert len(json_expressions([("json", wide)])) == 200
    assert json_expressions([("json", {"\x1b[2J": 1, "x" * 1000: 2})]) == ()


def test_values_of_the_first_samples_are_found(tmp_path: Path) -> None:
    write_shard(
        tmp_path / "s_0.tar",
        {f"{number}": {"json": json.dumps({"meta": {f"k{number}": 1}}).encode()} for number in range(3)},
    )
    first = inspect_folder(str(tmp_path)).contents
    assert first.json_values == ("json[meta][k0]", "json[meta][k1]", "json[meta][k2]")
    assert first.seen.example == {"meta": {"k0": 1, "k1": 1, "k2": 1}}, "merged"
