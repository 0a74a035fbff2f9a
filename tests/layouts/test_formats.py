"""The table of formats in the documentation names the cards that test it."""

from __future__ import annotations

import re

import tests.layouts.test_layouts  # noqa: F401 - registers all cards
from tests.layouts.layout import LAYOUTS
from tests.source_tree import ROOT

ROWS = re.findall(
    r"^\| (?!format \||-)(.+) \|$",
    (ROOT / "docs" / "reference" / "formats-of-import.md").read_text("utf-8"),
    flags=re.MULTILINE,
)


def test_each_format_of_the_table_names_cards_that_exist() -> None:
    rows = [row for row in ROWS if not row.startswith("--")]
    cards = {row: re.findall(r"`(\w+)`", row.rpartition(" | ")[2]) for row in rows}
    assert len(cards) > 1
    assert [row for row, names in cards.items() if not names or not {*names} <= LAYOUTS.keys()] == []
