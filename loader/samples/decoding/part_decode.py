"""Decode the bytes of one part by the part's name; ``loader/parts/kinds.py`` has the rules.

Arrays (``npy npz``) are decoded by numpy, tensor lists (``ten tb``) by webdataset. All values equal webdataset's, with
intended differences:

* names match in any case (webdataset keeps ``TXT`` and ``JSON`` as bytes);
* ``jsonl`` is decoded to the list of its lines' values (webdataset keeps bytes);
* a ``json`` that contains ``null`` becomes None (webdataset returns the bytes ``b"null"``);
* pickles are loaded only if the caller trusts the data, and so is a ``.pth`` with more than tensors and plain values;
* ``mp`` / ``msg`` are decoded by msgspec: timestamps become datetime, maps may have numbers as keys;
* a byte order mark at the beginning of a text is dropped (webdataset keeps it);
* ``cbor`` is decoded by cbor2 (webdataset uses the unmaintained cbor);
* ``mpg``, ``mpeg``, ``h5`` and ``hdf`` are not images and stay bytes.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

import msgspec
import numpy as np

from ...errors import EnergonError, MissingPackageError, SampleError, SkipSample
from ...format.jsonl.lines import BYTE_ORDER_MARK
from ...parts.kinds import TORCH, PartKind, foreign_contents, is_compressed, kind_of_name, part_extension
from ...parts.large_parts import LargePart
from ...parts.open_picture import PIXEL_LIMIT_VARIABLE
from ...parts.unread_picture import UnreadPictureError
from ..trust import is_trusted, refuse
from .image_decode import ImageForm, decode_image, keep_encoded, looks_like_image

MAX_DECOMPRESSED_BYTES = 1 << 30
"""Limit for the content of a compressed part: a file of a thousandth of that size could fill the memory."""

_EXPECTED: Mapping[PartKind, str] = {"image": "image", "label": "whole number", "text": "UTF-8 text"}

_MSGSPEC_JSON = msgspec.json.Decoder().decode


class TorchPart(bytes):
    """A part that only torch decodes, in a sample that is only shown."""

    extension: str

    def __new__(cls, extension: str, data: bytes) -> Self:
        part = super().__new__(cls, data)
        part.extension = extension
        return part


def decode_part(
    part_name: str, data: bytes, *, form: ImageForm, trust_code: bool = False, guess_content: bool = False
) -> Any:
    """Decode a part.

    Args:
        data: Its bytes.

    Returns:
        The value; the bytes themselves for parts of unknown names, and for audio and video.

    Raises:
        TrustError: The part may run code, and ``trust_code`` is false.
    """
    decoder = part_decoder(part_name, form=form, trust_code=trust_code, guess_content=guess_content)
    return data if decoder is None else decode_with(decoder, part_name, data)


def decode_with(decoder: Callable[[bytes], Any], part_name: str, data: bytes) -> Any:
    """Decode a part; map errors of the decoder to SampleError."""
    try:
        return decoder(data)
    except (EnergonError, ImportError, SkipSample):
        raise
    except Exception as error:
        raise part_error(part_name, data, error) from error


def part_decoder(
    part_name: str,
    *,
    form: ImageForm,
    trust_code: bool = False,
    guess_content: bool = False,
    media_decoder: Callable[[bytes], Any] | None = None,
) -> Callable[[bytes], Any] | None:
    """Return the decoder of parts of a name; None where they stay bytes.

    Args:
        media_decoder: Decoder of the part if it is audio or video; None keeps it as bytes.

    Returns:
        A function of the part's bytes, which may raise any exception if they do not match the name.
    """
    kind = kind_of_name(part_name)
    decoder: Callable[[bytes], Any] | None
    image = partial(keep_encoded if form.device == "cuda" else decode_image, form=form, trust_code=trust_code)
    if kind == "image":
        decoder = image
    elif form.container == "planes" and part_extension(part_name) in TORCH:
        decoder = partial(TorchPart, part_extension(part_name))
    elif media_decoder is not None:
        decoder = media_decoder
    elif kind == "bytes" and guess_content:
        decoder = partial(_decode_guessed, image)
    elif (trusting := _TRUSTING_DECODERS.get(part_extension(part_name))) is not None:
        decoder = partial(trusting, part_name, trust_code=trust_code)
    else:
        decoder = _DECODERS.get(part_extension(part_name))
    # A compressed part is decompressed first, also for the decoder of the name without .gz.
    if is_compressed(part_name):
        return partial(_decode_compressed, decoder)
    return decoder


def part_error(part_name: str, data: bytes, error: Exception) -> SampleError:
    """Return the error for a part whose bytes do not match its name."""
    if isinstance(data, LargePart):
        message = f"part {part_name!r} has {data.size_bytes:,} bytes, {data.fault}"
        return SampleError(message, part=part_name, hint="raise --max-json-bytes, or store it in smaller parts")
    hint = "rewrite it, or exclude the sample (energon lint --fix does)"
    if not data:
        message = f"part {part_name!r} is empty (0 bytes)"
    else:
        expected = _EXPECTED.get(kind_of_name(part_name), part_extension(part_name))
        name, cause = type(error).__name__, str(error).partition("\n")[0]
        foreign = foreign_contents(part_name, data, is_unreadable=name == "UnidentifiedImageError")
        message = foreign or f"part {part_name!r} does not decode as {expected}: {cause or name}"
        if isinstance(error, UnreadPictureError):
            hint = "write a decoder that reads it (docs/how-to/decode-samples.md), or convert the pictures"
        if name == "DecompressionBombError":
            hint = f"{hint}; if its size is right, pass SampleDecoder(max_pixels=…) or set {PIXEL_LIMIT_VARIABLE}"
    return SampleError(message, part=part_name, hint=hint)


def _decode_guessed(decode: Callable[[bytes], Any], data: bytes) -> Any:
    return decode(data) if looks_like_image(data) else data


def _decode_compressed(decoder: Callable[[bytes], Any] | None, data: bytes) -> Any:
    with gzip.open(io.BytesIO(data)) as file:
        contents = file.read(MAX_DECOMPRESSED_BYTES + 1)
    if len(contents) > MAX_DECOMPRESSED_BYTES:
        raise _too_large()
    return contents if decoder is None else decoder(contents)


def _json(data: bytes) -> Any:
    try:
        return _MSGSPEC_JSON(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # msgspec is three times as fast as Python's decoder and returns equal values, but it refuses NaN, numbers that
        # overflow, lone surrogates and other encodings.
        return json.loads(data)


def _text(data: bytes) -> str:
    return str(data.removeprefix(BYTE_ORDER_MARK), "utf-8")  # the codec utf-8-sig takes four times as long


def _jsonl(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.split(b"\n") if line.strip()]


def _tensors(data: bytes) -> Any:
    from webdataset.autodecode import tenbin_loads  # imports torch, which takes seconds

    return tenbin_loads(data)


def _npy(data: bytes) -> Any:
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)  # arrays of objects are pickles


def _npz(data: bytes) -> Any:
    _check_archive(data)
    return dict(np.load(io.BytesIO(data), allow_pickle=False))


def _check_archive(data: bytes) -> None:
    """Refuse a zip archive whose members are too large; readers of archives never decompress more than it states."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        sizes = [member.file_size for member in archive.infolist()]
    if sum(sizes) > max(MAX_DECOMPRESSED_BYTES, len(data)):
        raise _too_large()


def _too_large() -> ValueError:
    return ValueError(
        f"it holds more than {MAX_DECOMPRESSED_BYTES:,} bytes, the limit of "
        "loader.samples.decoding.part_decode.MAX_DECOMPRESSED_BYTES"
    )


def _cbor(data: bytes) -> Any:
    try:
        import cbor2
    except ImportError:
        raise MissingPackageError("decoding cbor parts needs the package cbor2: pip install cbor2") from None
    return cbor2.loads(data)


def _torch(part_name: str, data: bytes, *, trust_code: bool) -> Any:
    import torch

    if data.startswith(b"PK"):
        _check_archive(data)
    try:
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=not is_trusted(trust_code))
    except pickle.UnpicklingError as error:
        if is_trusted(trust_code):
            raise
        if not data.startswith((b"PK", b"\x80")):  # a zip archive, or a pickle, as old versions wrote
            raise ValueError("torch.save writes no such file") from error
        # PyTorch's own message also proposes functions of PyTorch that would allow it.
        raise refuse(f"part {part_name!r} holds more than tensors and plain values, which may run code") from error


def _pickle(part_name: str, data: bytes, *, trust_code: bool) -> Any:
    if not is_trusted(trust_code):
        raise refuse(f"part {part_name!r} is a pickle, which may run code")
    return pickle.loads(data)  # noqa: S301 - the caller trusts the data


_DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    "cbor": _cbor,
    "cls": int,
    "cls2": int,
    "id": int,
    "index": int,
    "inx": int,
    "jsn": _json,
    "json": _json,
    "jsonl": _jsonl,
    "mp": msgspec.msgpack.decode,
    "msg": msgspec.msgpack.decode,
    "npy": _npy,
    "npz": _npz,
    "tb": _tensors,
    "ten": _tensors,
    "text": _text,
    "transcript": _text,
    "txt": _text,
}

QUICK_DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    "json": _MSGSPEC_JSON,
    "text": _text,
    "txt": _text,
}
"""Short functions for the most frequent small parts; what they refuse may still be decoded by :func:`decode_part`."""

# By hand, not by webdataset: its versions load pickles and .pth files under different rules and environment variables.
_TRUSTING_DECODERS: Mapping[str, Callable[..., Any]] = {
    "pickle": _pickle,
    "pkl": _pickle,
    "pth": _torch,
    "pyd": _pickle,
}
