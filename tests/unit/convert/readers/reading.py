"""Read annotations of a picture with 200 x 100 pixels."""

from __future__ import annotations

import json
from typing import Any

from loader.convert.readers.reader import About, Annotation
from loader.convert.readers.registry import read_annotation


def read(reader: str, data: bytes | str | dict[str, Any], about: About | None = None) -> dict[str, Any]:
    """Return annotations in the one form; objects are encoded as JSON."""
    text = json.dumps(data) if isinstance(data, dict) else data
    encoded = text.encode() if isinstance(text, str) else text
    return read_annotation(reader, Annotation(encoded, about or About(), lambda: (200, 100)))
