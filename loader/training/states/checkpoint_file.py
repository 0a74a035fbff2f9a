"""Read files of checkpoints, JSON or written by ``torch.save``.

No code from a file is run. A hostile file is refused in about the time that reading its bytes takes: its values are
counted before they are made.
"""

from __future__ import annotations

import io
import json
import os
import re
import struct
import zipfile
from typing import Any, BinaryIO, Literal

from ...errors import EnergonError, StateError
from ...storage import FileStream, max_document_bytes, open_parent
from ...storage.protocol import DOCUMENT_LIMIT_VARIABLE
from .plain_pickle import (
    HINT,
    PickleLimitError,
    UnknownGlobalError,
    max_values,
    read_pickle,
    too_many_values,
)

Form = Literal["json", "torch"]

_ZIP = b"PK\x03\x04"
_OLD_TORCH = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # the first bytes of torch.save before version 1.6
_OLD_TORCH_PICKLES = 3  # before that of the object: a magic number, the version, facts of the machine
# zipfile reads a few bytes at a time; each would be a request to remote storage.
_READ_AT_ONCE = 1 << 16
_MAX_DIRECTORY_BYTES = 1 << 24  # the list of the records of a zip file; 200,000 tensors


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[Form, Any]:
    """Read a JSON file, or the plain data in a file of ``torch.save``.

    Returns its format, and its content: nested dicts and lists; in a file of ``torch.save`` also
    :class:`~.plain_pickle.Opaque` values.

    Tensors are not read. A pickle that names other classes or functions is refused, and none of them is imported.
    """
    storage, name = open_parent(path)
    text = os.fspath(path)
    with storage.open(name) as file:
        head, size = file.read_at(0, 4096), file.size_bytes
        if head.startswith(_ZIP):
            pickled = _read_zip(io.BufferedReader(FileStream(file), _READ_AT_ONCE), text)
            return "torch", _unpickle(pickled, text)
    if head.startswith(_OLD_TORCH):
        _check_size(size, text)
        return "torch", _unpickle(storage.read(name), text, skipped=_OLD_TORCH_PICKLES)
    if head.lstrip()[:1] in (b"{", b"["):
        _check_size(size, text)
        return "json", _read_json(storage.read(name), text)
    raise StateError(f"expected JSON or a file of torch.save, found {_kind(head)}", at=text, hint=HINT)


def _read_json(data: bytes, path: str) -> Any:
    if sum(map(data.count, (b",", b"[", b"{"))) > max_values():  # values take up to fifty times their text in memory
        raise too_many_values(path)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise StateError(
            f"this JSON cannot be read: {error}", at=path, hint="was the file written to its end?"
        ) from error


def _read_zip(file: BinaryIO, text: str) -> bytes:
    """Return the pickle in a file of torch.save; its checksum is compared."""
    try:
        # Bound the work of zipfile before it reads the list of records.
        _check_directory(file, text)
        with zipfile.ZipFile(file) as archive:
            # The records of tensors are not read: a state has none.
            pickles = [member for member in archive.infolist() if re.fullmatch(r"[^/]+/data\.pkl", member.filename)]
            if len(pickles) == 1:
                member = pickles[0]
                _check_size(member.file_size, text)
                if not member.CRC:  # torch can be told to write no checksums
                    del member.CRC
                return archive.read(member)
    except EnergonError:
        raise
    except Exception as error:  # a damaged zip file raises a dozen kinds of errors
        raise StateError(
            f"this file of torch.save is damaged: {error}", at=text, hint="was it written to its end?"
        ) from error
    raise StateError("torch.save did not write this zip file: it has no data.pkl", at=text, hint=HINT)


def _check_directory(file: BinaryIO, text: str) -> None:
    """Raise StateError if the list of the records is so long that zipfile would take minutes to read it."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - (1 << 16), 0))
    tail = file.read()
    end, end_64 = tail.rfind(b"PK\x05\x06"), tail.rfind(b"PK\x06\x06")
    sizes = [struct.unpack_from("<I", tail, end + 12)[0]] if 0 <= end <= len(tail) - 16 else []
    sizes += [struct.unpack_from("<Q", tail, end_64 + 40)[0]] if 0 <= end_64 <= len(tail) - 48 else []
    if min(sizes, default=0) > _MAX_DIRECTORY_BYTES:
        raise StateError(
            f"expected a file of at most 200,000 tensors, found a list of records of {min(sizes) >> 20} MiB",
            at=text,
            hint=HINT,
        )


def _unpickle(data: bytes, path: str, *, skipped: int = 0) -> Any:
    """Return the value of a pickle, after a number of others."""
    start, value = 0, None
    limit = 2 * max_values()  # most values take two instructions
    try:
        for _ in range(skipped + 1):
            value, start = read_pickle(data, start=start, max_instructions=limit)
    except PickleLimitError as error:
        raise too_many_values(path) from error
    except UnknownGlobalError as error:
        raise _unknown(str(error), path) from error
    except ValueError as error:
        raise StateError(
            f"this file of torch.save cannot be read: {error}", at=path, hint="was it written to its end?"
        ) from error
    return value


def _unknown(name: str, path: str) -> StateError:
    if name.startswith("megatron.energon."):
        return StateError(
            f"this is a state of megatron-energon (it holds {name}), which cannot be restored here",
            at=path,
            hint="start the data of the run from the beginning",
        )
    return StateError(
        f"this file was not read: it holds objects of {name}, and reading such a pickle may run code",
        at=path,
        hint=HINT,
    )


def _check_size(size_bytes: int, path: str) -> None:
    limit = max_document_bytes()  # the states of 10,000 ranks are a tenth of the default
    if size_bytes > limit:
        raise StateError(
            f"expected at most {limit >> 20} MiB of plain data, found {size_bytes >> 20} MiB",
            at=path,
            hint=f"{HINT}; if it is one, set the environment variable {DOCUMENT_LIMIT_VARIABLE}={size_bytes}",
        )


def _kind(head: bytes) -> str:
    if not head:
        return "an empty file"
    if head[:1] == b"\x80":
        return "another pickle, which may run code when it is read"
    return f"a file that starts with {head[:16]!r}"
