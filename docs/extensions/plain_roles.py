"""Convert roles in docstrings to code on reference pages: :class:`~loader.errors.SkipSample` becomes `SkipSample`."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":[a-z]+:`(~?)([\w.]+)`")


class PlainRoles(griffe.Extension):
    """Extension that replaces each role by code: the last name after a tilde, otherwise the full name."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(plain, obj.docstring.value)


def plain(role: re.Match[str]) -> str:
    shortened, name = role.groups()
    return f"`{name.rpartition('.')[2] if shortened else name}`"
