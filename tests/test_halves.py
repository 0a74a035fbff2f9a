"""A module holds one idea: its definitions mention each other, or what one of them uses."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict

from tests.source_tree import sources
from tests.test_architecture import BUDGET

SMALLEST = 40
"""Lines of a group of definitions that count as an idea of their own."""

SHARED = ("TypeVar", "ParamSpec", "getLogger", "get_logger")
"""What makes constants that connect definitions which have nothing to do with each other."""


def halves(module: ast.Module) -> list[tuple[int, list[str]]]:
    """Return the groups of definitions that never mention each other: their lines and names, the largest first."""
    names_of: dict[int, set[str]] = {}
    owner: dict[str, int] = {}
    parent: dict[int, int] = {}
    # Note which statement defines each name.
    for position, node in enumerate(module.body):
        names = defined_names(node)
        if names:
            names_of[position], parent[position] = names, position
            owner.update(dict.fromkeys(names, position))

    def root(position: int) -> int:
        while parent[position] != position:
            position = parent[position]
        return position

    # Join the definitions that mention each other, also in annotations that are texts.
    for position in names_of:
        for part in ast.walk(module.body[position]):
            name = part.id if isinstance(part, ast.Name) else part.value if isinstance(part, ast.Constant) else None
            if isinstance(name, str) and name in owner:
                parent[root(position)] = root(owner[name])
    # Count the lines of each group.
    lines, members = Counter[int](), defaultdict[int, list[str]](list)
    for position, names in names_of.items():
        node = module.body[position]
        lines[root(position)] += (node.end_lineno or 0) - node.lineno + 1
        members[root(position)] += sorted(names)
    return [(count, members[group]) for group, count in lines.most_common() if count >= SMALLEST]


def defined_names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return set()
    made_by = node.value.func if isinstance(node.value, ast.Call) else None
    if getattr(made_by, "id", getattr(made_by, "attr", "")) in SHARED:
        return set()
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}


def test_few_modules_hold_two_ideas() -> None:
    modules = [
        source for source in sources() if not source.is_package and not source.module.startswith("loader.testing")
    ]
    divided = {source.module: groups for source in modules if len(groups := halves(ast.parse(source.text))) > 1}
    assert divided.keys() == BUDGET["modules_with_halves"].keys(), divided


def test_halves_are_found() -> None:
    lines = "\n    x = 1" * SMALLEST
    apart = f"def a():{lines}\n\ndef b():{lines}\n"
    assert [names for _, names in halves(ast.parse(apart))] == [["a"], ["b"]]
    assert [names for _, names in halves(ast.parse(f"{apart}\nBOTH = (a, b)\n"))] == [["a", "b", "BOTH"]]
    assert [names for _, names in halves(ast.parse(f'{apart}\ndef c(x: "a"):\n    b()\n'))] == [["a", "b", "c"]]
