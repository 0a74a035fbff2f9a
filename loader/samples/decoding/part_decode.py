"""The bytes of one part to its value, by the part's name; the rules are in ``loader/format/documents/part_kinds.py``.

Every value is what webdataset's own decoders give, but for these, on purpose:

* ``jsonl`` is decoded (webdataset leaves bytes), to the list of its lines' values;
* a ``json`` that holds ``null`` gives None (webdataset gives the bytes ``b"null"``);
* pickles load only where the caller trusts the data, ``.pth`` with anything but tensors and plain values likewise;
* ``mp`` / ``msg`` go through msgspec: timestamps become datetime, maps may have numbers for keys;
* ``mpg``, ``mpeg``, ``h5`` and ``hdf`` are no images and stay bytes.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
import numpy as np

from ...errors import EnergonError, SampleError
from ...format.documents.part_kinds import part_extension, part_kind
from ..trust import refuse
from .image_decode import ImageForm, decode_image, looks_like_image
from .media_decode import MediaForm, media_decoder

__all__ = ["MAX_DECOMPRESSED_BYTES", "decode_part", "part_decoder", "part_error"]

MAX_DECOMPRESSED_BYTES = 1 << 30
"""What a compressed part may hold; a thousandth of that as a file is enough to fill a machine's memory."""

_MSGSPEC_JSON = msgspec.json.Decoder().decode

_TOO_LARGE = f"it holds more than {MAX_DECOMPRESSED_BYTES >> 20} MiB"


def decode_part(
    part_name: str, data: bytes, *, form: ImageForm, trusted: bool = False, guess_content: bool = False
) -> Any:
    """Decode a part.

    Args:
        part_name: Its name, ``"jpg"`` or ``"seg.png"``.
        data: Its bytes.
        form: What pictures become.
        trusted: The caller trusts the data: pickles may load.
        guess_content: Look at the bytes where the name says nothing.

    Returns:
        The value; the bytes themselves where the name says nothing, and for audio and video.

    Raises:
        SampleError: The bytes are not what the name says.
        TrustError: The part may run code, and ``trusted`` is false.
        ImportError: A package is missing; the message names it.
    """
    decoder = part_decoder(part_name, form=form, trusted=trusted, guess_content=guess_content)
    if decoder is None:
        return data
    try:
        return decoder(data)
    except (EnergonError, ImportError):
        raise
    except Exception as error:
        raise part_error(part_name, data, error) from error


def part_decoder(
    part_name: str,
    *,
    form: ImageForm,
    trusted: bool = False,
    guess_content: bool = False,
    media: MediaForm | None = None,
) -> Callable[[bytes], Any] | None:
    """Find what decodes parts of a name; None where they stay bytes.

    Args:
        part_name: As in :func:`decode_part`, like the others.
        media: What audio and video become; None for bytes.

    Returns:
        A function that raises whatever it likes for bytes that are not what the name says.
    """
    kind = part_kind(part_name)
    decoder: Callable[[bytes], Any] | None
    if kind == "image":
        decoder = partial(decode_image, form=form, trusted=trusted)
    elif media is not None and (found := media_decoder(part_name, media)) is not None:
        decoder = found
    elif kind == "bytes" and guess_content:
        decoder = partial(_decode_guessed, form=form, trusted=trusted)
    else:
        decoder = _value_decoder(part_name, trusted=trusted)
    if part_name.endswith(".gz") or part_name == "gz":
        return partial(_decode_compressed, decoder)
    return decoder


def _value_decoder(part_name: str, *, trusted: bool = False) -> Callable[[bytes], Any] | None:
    """Find what decodes parts that are no pictures, as :func:`part_decoder` does."""
    extension = part_extension(part_name)
    trusting_decoder = _TRUSTING_DECODERS.get(extension)
    if trusting_decoder is not None:
        return partial(trusting_decoder, part_name, trusted=trusted)
    return _DECODERS.get(extension)


def _decode_guessed(data: bytes, *, form: ImageForm, trusted: bool) -> Any:
    return decode_image(data, form, trusted=trusted) if looks_like_image(data) else data


def _decode_compressed(decoder: Callable[[bytes], Any] | None, data: bytes) -> Any:
    contents = _decompress(data)
    return contents if decoder is None else decoder(contents)


def part_error(part_name: str, data: bytes, error: Exception) -> SampleError:
    """Build the error for a part whose bytes are not what its name says."""
    name = type(error).__name__
    if not data:
        found = f"part {part_name!r} is empty (0 bytes)"
    elif name == "UnidentifiedImageError":
        found = f"part {part_name!r} is not an image (it starts with {data[:16]!r})"
    else:
        cause = str(error).partition("\n")[0]
        kind = {"image": "image", "tree": part_extension(part_name), "text": "UTF-8 text", "label": "whole number"}
        expected = kind.get(part_kind(part_name), part_extension(part_name))
        found = f"part {part_name!r} does not decode as {expected}: {cause or name}"
    return SampleError(found, part=part_name, hint="rewrite it, or exclude the sample (energon lint --fix does)")


def _decompress(data: bytes) -> bytes:
    with gzip.open(io.BytesIO(data)) as file:
        contents = file.read(MAX_DECOMPRESSED_BYTES + 1)
    if len(contents) > MAX_DECOMPRESSED_BYTES:
        raise ValueError(_TOO_LARGE)
    return contents


def _json(data: bytes) -> Any:
    try:
        return _MSGSPEC_JSON(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # What it takes, it decodes to what Python's own decoder does, three times as fast; but it takes less: no NaN,
        # no numbers that overflow, no lone surrogates, no other encodings.
        return json.loads(data)


def _text(data: bytes) -> str:
    return data.decode("utf-8")


def _jsonl(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.split(b"\n") if line.strip()]


def _npy(data: bytes) -> Any:
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def _npz(data: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        sizes = [member.file_size for member in archive.infolist()]  # never more is decompressed than they say
    if sum(sizes) > MAX_DECOMPRESSED_BYTES:
        raise ValueError(_TOO_LARGE)
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return dict(arrays)


def _tensor_list(data: bytes) -> Any:
    from webdataset import tenbin

    return tenbin.decode_buffer(data)


def _cbor(data: bytes) -> Any:
    try:
        import cbor2
    except ImportError:
        raise ImportError("decoding cbor parts needs the package cbor2: pip install cbor2") from None
    return cbor2.loads(data)


def _torch(part_name: str, data: bytes, *, trusted: bool) -> Any:
    import torch

    try:
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=not trusted)
    except pickle.UnpicklingError as error:
        if trusted:
            raise
        if not data.startswith((b"PK", b"\x80")):  # a zip archive, or a pickle as old versions wrote
            raise ValueError("torch.save writes no such file") from error
        # PyTorch's text says more than what it found, such as which of its functions would allow it.
        raise refuse(f"part {part_name!r} holds more than tensors and plain values, which may run code") from error


def _pickle(part_name: str, data: bytes, *, trusted: bool) -> Any:
    if not trusted:
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
    "tb": _tensor_list,
    "ten": _tensor_list,
    "text": _text,
    "transcript": _text,
    "txt": _text,
}

_TRUSTING_DECODERS: Mapping[str, Callable[..., Any]] = {
    "pickle": _pickle,
    "pkl": _pickle,
    "pth": _torch,
    "pyd": _pickle,
}
