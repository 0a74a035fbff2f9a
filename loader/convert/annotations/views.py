"""Views of a scene, as NeRF, Instant-NGP and nerfstudio describe them: what a document says of all belongs to each."""

from __future__ import annotations

import re

import msgspec

from .json_document import JsonDocument

_FRAMES, _POSE = "frames", b'"transform_matrix"'
_PATH = re.compile(rb'\.[a-zA-Z]\w{1,4}"\Z')  # ends a name of a file
_MAX_BYTES = 1 << 16  # of a value that each view gets


def shared_members(path: str, inside: str) -> bytes:
    """Return the members of a document that each of its views gets, such as the angle of the camera.

    Names of files are left out: a cloud of points is one file for all views.

    Args:
        inside: The list that is read.

    Returns:
        Members of JSON with a comma behind each; empty for other documents.
    """
    if inside != _FRAMES:
        return b""
    shared: dict[str, msgspec.Raw] = {}
    with JsonDocument(path) as document:
        document.peek()
        for name in document.fields():
            document.peek()
            value = document.value().data
            if name == _FRAMES:
                if _POSE not in value[:_MAX_BYTES]:
                    return b""
            elif 0 < len(value) <= _MAX_BYTES and not _PATH.search(value):
                shared[name] = msgspec.Raw(value)
    return msgspec.json.encode(shared)[1:-1] + b"," if shared else b""
