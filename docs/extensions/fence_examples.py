"""Fence the `>>>` examples of docstrings, in any section, so that reference pages show them as code."""

from __future__ import annotations

from typing import Any

import griffe


class FenceExamples(griffe.Extension):
    """Extension that fences each run of lines from a `>>>` to the next empty line."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    lines: list[str] = []
    indent: str | None = None
    for line in text.splitlines():
        if indent is None and line.lstrip().startswith(">>> "):
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(f"{indent}```pycon")
        elif indent is not None and not line.strip():
            lines.append(f"{indent}```")
            indent = None
        lines.append(line)
    if indent is not None:
        lines.append(f"{indent}```")
    return "\n".join(lines)
