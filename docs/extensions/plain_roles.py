"""For the reference pages: shows a role of a docstring, such as :class:`~loader.errors.SkipSample`, as `SkipSample`."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":[a-z]+:`(~?)([\w.]+)`")


class PlainRoles(griffe.Extension):
    """Makes code of each role: its last name where a tilde says so, else the name as it is written."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(plain, obj.docstring.value)


def plain(role: re.Match[str]) -> str:
    shortened, name = role.groups()
    return f"`{name.rpartition('.')[2] if shortened else name}`"
