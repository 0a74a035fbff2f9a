"""Name the parts that are files of another kind than their names say."""

from __future__ import annotations

from collections.abc import Mapping

from .kinds import HEADER_BYTES, PartKind, is_compressed, kind_of_bytes, kind_of_name, kind_of_part, part_extension

_FOREIGN: Mapping[PartKind | None, frozenset[PartKind]] = {
    "array": frozenset({"page", "pointer"}),  # numpy's and torch's files are archives
    "text": frozenset({"pointer"}),  # a page is a text
    None: frozenset({"archive", "document", "page", "pointer", "table"}),
}
"""Kind by name (None for the others) → kinds of contents that such a part cannot have."""


def foreign_contents(part_name: str, data: bytes, *, is_unreadable: bool = False) -> str | None:
    """Return one line if a part is a file of another kind than its name says; None if it is not, or unknown.

    Args:
        part_name: Its name.
        data: Its bytes.
        is_unreadable: The part is an image by its name, and no reader of images knows it.

    >>> foreign_contents("jpg", b"%PDF-1.7")
    "part 'jpg' is not an image, but a PDF document"
    >>> foreign_contents("gif", b"GIF89a", is_unreadable=True)
    "part 'gif' is a GIF picture, but is damaged"
    """
    if is_compressed(part_name):
        return None
    named, contents = kind_of_name(part_name), kind_of_bytes(data[:HEADER_BYTES], len(data))
    if named == "bytes":
        return f"part {part_name!r} is {contents.description}" if contents.kind == "pointer" else None
    expected = f"part {part_name!r} is not {'an image' if named == 'image' else part_extension(part_name)}"
    is_foreign = contents.kind in _FOREIGN.get(named, _FOREIGN[None]) or kind_of_part(part_name, contents) != named
    if not is_foreign and not is_unreadable:
        return None
    if contents.kind == named:
        return f"part {part_name!r} is {contents.description}, but is damaged"
    but = "" if contents.kind == "bytes" else f", but {contents.description}"
    return f"{expected}{but}" if is_foreign else f"{expected}{but} (it starts with {data[:16]!r})"
