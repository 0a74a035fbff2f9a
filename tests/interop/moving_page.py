"""The statements of the page about moving, and the facts that check them.

A statement is a paragraph, a list item or a row of a table. A script in ``compat/scripts`` names the sentences that its
facts check: ``DIFFERS`` for facts that differ between the libraries, ``PROVES`` for facts that are the same.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

__all__ = ["PAGE", "SCRIPTS", "claims_of", "joined", "statements"]

PAGE = Path(__file__).parents[2] / "docs/how-to/move-from-megatron-energon.md"
SCRIPTS = sorted(path for path in Path(__file__).parent.glob("compat/scripts/*.py") if path.name != "facts.py")


def joined(text: str) -> str:
    """Return a text in one line, as a line break of the page has no meaning."""
    return " ".join(text.split())


def statements(text: str) -> list[str]:
    """Return the statements of a page, without headings, code, and heads of tables."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^\|.*\n\|[-| ]+\|$", "", text, flags=re.MULTILINE)  # the head of a table and its line
    text = re.sub(r"^(\||- |\d+\. )", r"\n\1", text, flags=re.MULTILINE)  # rows and items begin a statement
    found = (joined(block) for block in re.split(r"\n\s*\n", text))
    return [block for block in found if block and not block.startswith("#")]


def claims_of(script: Path) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the literals assigned to ``DIFFERS`` and ``PROVES`` in a script: fact → sentences of the page."""
    claims: dict[str, dict[str, tuple[str, ...]]] = {"DIFFERS": {}, "PROVES": {}}
    for statement in ast.parse(script.read_text()).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        name = getattr(targets[0], "id", "")
        if name in claims:
            given = ast.literal_eval(statement.value)  # type: ignore[attr-defined] # an assignment
            claims[name] = {
                fact: tuple(map(joined, (sentences,) if isinstance(sentences, str) else sentences))
                for fact, sentences in given.items()
            }
    return claims
