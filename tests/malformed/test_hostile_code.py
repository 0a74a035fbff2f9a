"""Names of parts and keys of json stay strings in the ``sample_loader.py`` that ``energon prepare`` writes."""

from __future__ import annotations

import ast

import pytest

from loader.format.documents.sample_types import SAMPLE_TYPES
from loader.prepare.contents.proposed_fields import SeenParts, propose_field_map
from loader.prepare.contents.sample_layouts import find_layout
from loader.prepare.dataset_yaml import sample_loader_text

NAMES = [
    'x"]) or evil() or (parts["y',
    "x']) or evil() or (parts['y",
    """x'" or evil() or '" """,
    'x"}\nevil()\n{"',
    "x\\",
    "caf\udce9\u202e",
]


def check(code: str, *names: str) -> None:
    """Check that the code calls nothing by the names of a part, has their texts, and only printable characters."""
    tree = ast.parse(code)
    assert "evil" not in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert {*names} <= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert code.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", NAMES)
def test_names_are_strings_in_the_loader_that_users_complete(name: str) -> None:
    spec, part = SAMPLE_TYPES["VQASample"], f"{name}.jpg"
    check(sample_loader_text(spec, {}, [part]), part)
    check(sample_loader_text(spec, propose_field_map(spec, SeenParts([part], {})), [part]), part)
    example = {name: {"question": "why?", "answers": ["so"]}}
    proposals = propose_field_map(spec, SeenParts(["jpg", "json"], example))
    check(sample_loader_text(spec, proposals, ["jpg", "json"]), name, "json")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "example",
    [
        {"texts": ["a cat", None]},
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "a"}]},
    ],
)
def test_names_are_strings_in_the_loader_of_a_layout(name: str, example: dict[str, object]) -> None:
    layout = find_layout([f"{name}.jpg", "1.jpg", f"{name}.json"], example)
    assert layout is not None
    check(layout.code, f"{name}.json")
