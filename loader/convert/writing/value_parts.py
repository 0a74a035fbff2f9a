"""Choose the part of a value of another format: its name with an extension, and its bytes."""

from __future__ import annotations

import io
import re
from typing import Any

import msgspec
import numpy as np

from ...accounting.kinds import usual_extension
from ...errors import SampleError

_UNSAFE = re.compile(r"[^0-9A-Za-z_-]+")


def part_of_value(name: str, value: Any) -> tuple[str, bytes]:
    """Return the part of a value: pictures as PNG, arrays as npy, texts as txt, labels as cls, others as JSON.

    Args:
        name: Name of the value.
        value: A value of Python, numpy, Pillow or torch; bytes get the extension of their contents.

    Raises:
        SampleError: The value has no such form.

    >>> part_of_value("caption", "a cat"), part_of_value("label", 3)
    (('caption.txt', b'a cat'), ('label.cls', b'3'))
    """
    extension, data = _encoded(name, value)
    own = _UNSAFE.sub("_", name).strip("_") or "value"
    return (extension if own.lower() == extension else f"{own}.{extension}"), data


def _encoded(name: str, value: Any) -> tuple[str, bytes]:
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return usual_extension(data) or "bin", data
    if isinstance(value, str):
        return "txt", value.encode("utf-8", "surrogatepass")
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return "cls", str(int(value)).encode()
    if hasattr(value, "save") and hasattr(value, "mode"):  # a picture of Pillow
        encoded = io.BytesIO()
        value.save(encoded, "PNG")
        return "png", encoded.getvalue()
    if hasattr(value, "detach"):  # a tensor of torch
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.dtype != object:
        encoded = io.BytesIO()
        np.save(encoded, value, allow_pickle=False)
        return "npy", encoded.getvalue()
    try:
        return "json", msgspec.json.encode(value, enc_hook=_plain)
    except (TypeError, ValueError) as error:
        raise SampleError(f"a value of type {type(value).__name__} cannot be written: {error}", part=name) from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
