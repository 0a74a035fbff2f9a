"""Decode the pictures, sounds and videos in the rows of tables, as the parts of tar shards are decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import SampleError
from ...parts.kinds import part_extension, usual_extension

DecodePart = Callable[[str, bytes], Any]
"""Decodes a part, given its name and bytes."""


def decode_media(values: Mapping[str, Any], media: Mapping[str, str], decode: DecodePart) -> dict[str, Any]:
    """Return the values of a row with decoded media.

    Args:
        values: Values by column. Media are bytes, or dicts of ``bytes`` and ``path``, or lists of these.
        media: The columns of media, with the extension of contents of unknown kind; see :attr:`.RecordFile.media`.
        decode: Decodes bytes by the extension of their contents.

    Raises:
        SampleError: A value does not decode, or has a path alone; its ``part`` is the column.

    >>> decode_media({"image": {"bytes": b"GIF89a", "path": None}, "id": 3}, {"image": "jpg"}, lambda name, _: name)
    {'image': 'image.gif', 'id': 3}
    """
    decoded = dict(values)
    for name in media.keys() & values.keys():
        try:
            decoded[name] = _decoded(values[name], name, media[name], decode)
        except SampleError as error:
            raise SampleError(f"column {name!r}: {error.message}", part=name, hint=error.hint) from error
    return decoded


def media_contents(value: Any, name: str, extension: str) -> tuple[str, bytes] | None:
    """Return a part name with the extension of the contents, and the contents; None for no value.

    Raises:
        SampleError: The value has a path alone.
    """
    path = None
    if isinstance(value, Mapping):
        value, path = value.get("bytes"), value.get("path")
        if value is None and path:
            raise SampleError(
                f"it has no bytes, only the path {path!r}",
                part=name,
                hint="energon import follows paths, and copies the files",
            )
    if not isinstance(value, bytes):
        return None
    known = usual_extension(value) or (part_extension(path) if path and "." in path else "") or extension
    return f"{name}.{known}" if known else name, value


def _decoded(value: Any, name: str, extension: str, decode: DecodePart) -> Any:
    if isinstance(value, list):
        return [_decoded(each, name, extension, decode) for each in value]
    contents = media_contents(value, name, extension)
    return None if contents is None else decode(*contents)
