"""Encode the values of a sample as the bytes of its parts, as webdataset does."""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import io
import json
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ...errors import SampleError
from ...parts.kinds import is_compressed, kind_of_name, part_extension
from .shard_file import FileContents, PartContents

_QUALITY = 95  # of JPEG and WebP
_CHANNELS = (1, 3, 4)
_GREY, _SINGLE = 2, 1


def encode_part(name: str, value: Any, *, key: str) -> PartContents:
    """Return the bytes of a part.

    Bytes are written as they are, a text in UTF-8, and a path as the contents of its file. Other values are encoded by
    the extension: pictures (PIL images, arrays of shape (H, W) or (H, W, C), tensors of shape (C, H, W); uint8, or
    floats from 0 to 1), ``json``, ``cls``, ``txt``, ``npy``, ``npz``, ``pth``, ``ten``, ``tb``, ``mp``, ``cbor``,
    ``pyd`` and the others that webdataset has, with ``.gz`` behind it if it ends so.

    Args:
        name: Part name; the extension is what follows its last dot.
        value: The value.
        key: Key of the sample, for messages.

    Raises:
        SampleError: The value cannot be written under this name.

    >>> encode_part("json", {"a": [1]}, key="0"), encode_part("cls", 7, key="0")
    (b'{"a": [1]}', b'7')
    """
    # Values that are bytes already, or files, keep them.
    if isinstance(value, bytes | bytearray | memoryview):
        return value
    if isinstance(value, os.PathLike):
        return _open_file(value, name, key)
    try:
        data = value.encode("utf-8") if isinstance(value, str) else _encode(part_extension(name), value)
    except Exception as error:
        raise SampleError(
            f"a value of {type(value).__name__} cannot be written as {name!r}: {str(error) or type(error).__name__}",
            key=key,
            part=name,
            source=f"sample {key}",
            hint="pass bytes, or a value of the kind of the extension",
        ) from error
    return gzip.compress(data, mtime=0) if is_compressed(name) else data


def _open_file(path: os.PathLike[str], name: str, key: str) -> FileContents:
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by the writer
        return FileContents(file, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise SampleError(
            f"cannot read {os.fspath(path)}: {error.strerror}", key=key, part=name, source=f"sample {key}"
        ) from error


def _encode(extension: str, value: Any) -> bytes:
    if kind_of_name(extension) == "image":
        return _picture(extension, value)
    encoder = _ENCODERS.get(extension)
    if encoder is not None:
        return encoder(value)
    handlers = _webdataset_handlers()
    if extension not in handlers:
        raise ValueError("there is no encoder for this extension")
    return bytes(handlers[extension](_plain(value) if extension in _ARRAYS else value))


_PACKAGE = "_energon_webdataset"
_ARRAYS = frozenset({"npy", "npz", "tb", "ten", "tenbin"})


def _webdataset_handlers() -> Any:
    """Return the encoders of ``webdataset.writer`` by extension; the whole package would import torch."""
    if _PACKAGE not in sys.modules:
        spec = importlib.util.find_spec("webdataset")
        if spec is None or spec.submodule_search_locations is None:
            raise ImportError("webdataset is not installed", name="webdataset")
        package = ModuleType(_PACKAGE)
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules[_PACKAGE] = package  # its modules import each other relatively
    return importlib.import_module(f"{_PACKAGE}.writer").make_handlers()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, np.ndarray | int | float) else np.asarray(_array(value))


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_json_value).encode("utf-8")


def _json_value(value: Any) -> Any:
    plain = _array(value)
    if isinstance(plain, np.ndarray | np.generic):
        return plain.tolist()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _label(value: Any) -> bytes:
    plain = _array(value)
    label = plain.item() if isinstance(plain, np.ndarray | np.generic) else plain
    if not isinstance(label, int):
        raise TypeError("expected an integer")
    return b"%d" % label


def _text(value: Any) -> bytes:
    raise TypeError(f"expected a text, found {type(value).__name__}")


def _cbor(value: Any) -> bytes:
    import cbor2

    return bytes(cbor2.dumps(value))


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    **dict.fromkeys(("json", "jsn"), _json),
    **dict.fromkeys(("cls", "cls2", "class", "count", "index", "inx", "id"), _label),
    **dict.fromkeys(("txt", "text", "transcript", "html", "htm"), _text),
    "cbor": _cbor,
}
"""Encoders that replace webdataset's, which accept wrong types or need an unmaintained package."""


def _picture(extension: str, value: Any) -> bytes:
    from PIL import Image

    picture = value if isinstance(value, Image.Image) else Image.fromarray(_pixels(value))
    # The extension names the format.
    form = Image.registered_extensions().get(f".{extension}")
    if form is None or form not in Image.SAVE:
        raise ValueError("pictures cannot be written in this format")
    if form == "JPEG" and picture.mode not in ("RGB", "L", "CMYK"):
        picture = picture.convert("RGB")
    encoded = io.BytesIO()
    picture.save(encoded, form, quality=_QUALITY)
    return encoded.getvalue()


def _pixels(value: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return pixels of shape (H, W) or (H, W, C)."""
    # Bring the channels to the end, and drop a single one.
    pixels = np.asarray(_array(value))
    if hasattr(value, "detach") and pixels.ndim > _GREY:
        pixels = np.moveaxis(pixels, 0, -1)  # tensors have the channels first
    if pixels.ndim == _GREY + 1 and pixels.shape[-1] == _SINGLE:
        pixels = pixels[..., 0]
    if pixels.ndim not in (_GREY, _GREY + 1) or (pixels.ndim > _GREY and pixels.shape[-1] not in _CHANNELS):
        raise ValueError(f"expected the shape of a picture, found {tuple(np.shape(_array(value)))}")
    # Scale the values to bytes.
    if pixels.dtype.kind == "f":
        if not (pixels.min(initial=0) >= 0 and pixels.max(initial=0) <= 1):
            raise ValueError("expected floats from 0 to 1, or uint8")
        pixels = np.round(pixels * 255)
    elif pixels.dtype == np.bool_:
        pixels = pixels.astype(np.uint8) * 255
    elif pixels.dtype != np.uint8:
        raise ValueError(f"expected floats from 0 to 1, or uint8, found {pixels.dtype}")
    return np.ascontiguousarray(pixels.astype(np.uint8))
