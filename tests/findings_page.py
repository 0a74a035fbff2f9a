"""The page of the findings of lint, which is written from the rules.

``ENERGON_WRITE_GOLDEN=1 pytest tests/test_documentation.py`` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from loader.engine import Rule, plain_text
from loader.inspect import rule_groups
from loader.lint.rule import LintRule
from tests.source_tree import ROOT

PAGE = ROOT / "docs" / "reference" / "findings.md"
_FILES = ("split.yaml", "dataset.yaml", ".info.json", "index.sqlite", ".tar.idx", "--trust-code")

_HEAD = """\
# Findings of lint

Every finding of [`energon lint`](../commands/lint.md) has a code. **E** marks errors: data that training would not
read, or read incorrectly. `lint` then exits with 1. **W** marks warnings: unusual data that does no harm here.
[`energon rule E302`](../commands/rule.md) prints what this page has about a code.

With `--json` a finding has these keys: `severity`, `code`, `message`, `dataset`, `shard`, `key`, `part`, `offset`
(bytes into the shard), `at` and `hint`. `dataset` is the path of a dataset that a metadataset references, and null
otherwise. `at` and `hint` belong to an error about the whole dataset, such as E001.
"""


def findings_page() -> str:
    """Return the text of the page."""
    return "".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    for group in rule_groups():
        yield f"\n## {group.title}\n\n"
        if group.note:
            yield f"{group.note}\n\n"
        yield "| code | meaning | action |\n|---|---|---|\n"
        for rule in group.rules:
            yield f"| {rule.code} | {_meaning(rule)} | {rule.action} |\n"
        yield "\nWhy each one matters, and an example:\n\n"
        for rule in group.rules:
            data = f" *Data:* {', '.join(rule.kinds)}." if isinstance(rule, LintRule) else ""
            yield f"- **{rule.code}.** {rule.why} *Example:* {rule.example}{data}\n"


def _meaning(rule: Rule) -> str:
    text = plain_text(rule.meaning)
    for name in _FILES:
        text = text.replace(name, f"`{name}`")
    return text
