"""The beginnings of long files far away, which may show that a file names nothing: then it is not fetched whole."""

from __future__ import annotations

import re

from ..file_trees.file_names import BARE, BINARY_TABLES, reason_of_name
from .kinds import elements_of

_MIN_ROWS = 10  # of the beginning, which show what the others are like
_ENDINGS_WITHOUT_ROWS = (*BINARY_TABLES, ".gz", ".xml", ".scp")
_SEPARATORS = re.compile(r"[\"\t\n\r,;|]")


def may_have_rows(name: str) -> bool:
    """Return True for a file whose beginning may have whole rows, by its name."""
    return not name.lower().endswith(_ENDINGS_WITHOUT_ROWS)


def whole_rows(head: bytes, name: str) -> bytes:
    r"""Return the rows at the beginning of a file that are whole; none if they are few, or do not show the others.

    An object of JSON has other fields behind the first ones, so that it shows nothing.

    >>> whole_rows(b"a,b\n" * 20 + b"c", "x.csv") == b"a,b\n" * 20, whole_rows(b'{"a": 1', "x.json")
    (True, b'')
    """
    if reason_of_name(name) == BARE and b"\0" in head:
        return head  # it is not a text
    if not name.lower().endswith(".json"):
        rows = head[: head.rfind(b"\n") + 1]
        is_list = rows.lstrip()[:1] == b"["  # of JSON in lines, or over several
        return rows if rows.count(b"\n") >= _MIN_ROWS and not is_list else b""
    text = head.decode("utf-8", "surrogateescape")
    ends = [end for _, end in elements_of(text)]
    return f"{text[: ends[-1]]}]".encode("utf-8", "surrogateescape") if len(ends) >= _MIN_ROWS else b""


def words_of(piece: bytes) -> list[str]:
    """Return the texts and numbers in a piece of a table or document, wherever it begins.

    >>> words_of(b'e 1", "id": 17}, {"file": "a b.jpg"')
    ['e 1', 'id', '17', 'file', 'a b.jpg']
    """
    texts = _SEPARATORS.split(piece.decode("utf-8", "replace").replace("\\/", "/"))
    return [word for text in texts if (word := text.strip(" :[]{}"))]
