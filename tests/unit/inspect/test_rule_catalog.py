"""The explanations of the codes of lint and of accounts."""

from __future__ import annotations

import pickle

import pytest

from loader.engine import Rule, plain_text, reasons
from loader.errors import ConfigError
from loader.inspect.lint import find_rule, lint_rules, rule_groups
from loader.lint.rule import TARS, Finding, LintRule, LintRules, checks_of
from loader.lint.run import RULES_OF_DATASETS
from loader.lint.samples import SampleFaults

RULES = [rule for group in rule_groups() for rule in group.rules]


def test_rules_are_in_the_order_of_their_codes() -> None:
    of_lint = [int(rule.code[1:]) for group in lint_rules() for rule in group.rules]
    assert of_lint == sorted(set(of_lint))
    assert RULES[len(of_lint) :] == list(reasons().rules)
    assert len({rule.code for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_has_sentences_that_fit_a_table(rule: Rule) -> None:
    texts = {name: getattr(rule, name) for name in ("why", "action", "example")}
    assert all(texts.values())
    assert all(not set(text) & set("|\n") for text in texts.values())
    assert texts["why"].endswith(".")
    assert texts["example"].endswith(".")
    assert not texts["action"].endswith(".")
    assert "`" not in plain_text(" ".join(texts.values()))


def test_a_code_is_found_in_any_case() -> None:
    assert find_rule("e302") is find_rule("E302") is SampleFaults.E302
    assert (find_rule("E302").severity, find_rule("W305").severity) == ("error", "warning")


@pytest.mark.parametrize(("code", "near"), [("W302", "'E302'"), ("E30", "'E30")])
def test_an_unknown_code_names_a_similar_one(code: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {near}"):
        find_rule(code)


def test_a_finding_of_a_worker_process_names_its_rule_and_does_not_copy_it() -> None:
    sent = pickle.dumps(Finding(SampleFaults.E302, "it ends at byte 7", shard="s.tar"))
    assert SampleFaults.E302.why.encode() not in sent
    assert pickle.loads(sent).rule is SampleFaults.E302


def test_a_check_that_several_rules_name_runs_once() -> None:
    def check(_dataset: object) -> list[Finding]:
        return []

    class Twice(LintRules):
        title = "Twice"
        kinds = ("tar shards",)
        E901 = LintRule("a", why="b.", action="c", example="d.", of_dataset=check)
        E902 = LintRule("a", why="b.", action="c", example="d.", of_dataset=check)
        E903 = LintRule("a", why="b.", action="c", example="d.", of_dataset=check, kinds=("JSONL files",))

    [run] = checks_of([Twice], "tar shards", "of_dataset")
    assert run is check
    assert checks_of([Twice], "token files", "of_dataset") == []


def test_no_rule_has_a_check_that_never_runs() -> None:
    for group in lint_rules():
        for rule in group.rules:
            assert rule.of_sample is None or group is SampleFaults, rule
            assert (rule.of_dataset or rule.of_shard) is None or group in RULES_OF_DATASETS, rule
            assert rule.of_shard is None or set(TARS) & set(rule.kinds), rule
