"""``energon rule``: its output and its exit codes."""

from __future__ import annotations

from loader.inspect import rule_groups
from tests.cli.run_energon import RunEnergon

RULES = [rule for group in rule_groups() for rule in group.rules]


def test_a_code_is_explained(energon: RunEnergon) -> None:
    done = energon("rule", "e302")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "error E302: a part does not decode"
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["why", "action", "example"]


def test_without_a_code_all_are_listed(energon: RunEnergon) -> None:
    out = energon("rule").out
    assert all(f"  {rule.code}  {rule.meaning}\n" in out for rule in RULES)


def test_explanations_are_printed_as_json(energon: RunEnergon) -> None:
    [first, second] = energon("rule", "E302", "W305", "--json").json
    assert set(first) == {"code", "severity", "meaning", "why", "action", "example"}
    assert (first["code"], second["severity"]) == ("E302", "warning")
    assert [one["code"] for one in energon("rule", "--json").json] == [rule.code for rule in RULES]


def test_an_unknown_code_is_wrong_usage(energon: RunEnergon) -> None:
    done = energon("rule", "W302")
    assert (done.code, done.out) == (2, "")
    assert "did you mean 'E302'?" in done.err
