"""The explanations of the codes of lint and of accounts."""

from __future__ import annotations

import pytest

from loader.accounting import REASONS
from loader.errors import ConfigError
from loader.inspect.rules import RULE_GROUPS, find_rule, plain_text
from loader.lint import CODES

RULES = [rule for group in RULE_GROUPS for rule in group.rules]


def test_every_code_has_one_rule_in_the_order_of_the_codes() -> None:
    assert [rule.code for rule in RULES] == [*CODES, *REASONS]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_has_sentences_that_fit_a_table(rule: object) -> None:
    texts = {name: getattr(rule, name) for name in ("why", "action", "example")}
    assert all(texts.values())
    assert all(not set(text) & set("|\n") for text in texts.values())
    assert texts["why"].endswith(".")
    assert texts["example"].endswith(".")
    assert not texts["action"].endswith(".")
    assert "`" not in plain_text(" ".join(texts.values()))


def test_a_code_is_found_in_any_case() -> None:
    assert find_rule("e302") is find_rule("E302")
    assert (find_rule("E302").severity, find_rule("W305").severity) == ("error", "warning")


@pytest.mark.parametrize(("code", "near"), [("W302", "'E302'"), ("E30", "'E30")])
def test_an_unknown_code_names_a_similar_one(code: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {near}"):
        find_rule(code)
