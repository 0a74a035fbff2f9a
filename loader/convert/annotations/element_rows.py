"""Keys of the rows of elements, and the rows of those that cannot become samples."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import SampleError
from ..rows.keys import key_of_path
from ..rows.row import FaultRef, Row
from .json_elements import Element

_KEYS = ("id", "question_id", "questionId", "doc_id", "uid")


def document_key(document: Mapping[str, object], number: int) -> str:
    """Return the key of a document: its ``id``, or its number in the file.

    >>> document_key({"id": "a/b.c"}, 3), document_key({}, 3)
    ('a/b_c', '000000003')
    """
    found = next((document[name] for name in _KEYS if isinstance(document.get(name), str | int)), "")
    return key_of_path(str(found)) if found != "" else f"{number:09d}"


def fault_row(element: Element, fault: SampleError | str, *, split: str = "") -> Row:
    """Return the row of an element that cannot become a sample.

    Args:
        element: The element.
        fault: What is wrong.
        split: Its split part.
    """
    reason = fault.message if isinstance(fault, SampleError) else fault
    return Row(key=key_of_path(element.place), parts={"json": FaultRef(reason)}, origin=element.place, split=split)
