"""Read files of checkpoints, JSON or written by ``torch.save``, without running code from them."""

from __future__ import annotations

import json
import os
import pickle  # only for its UnpicklingError; nothing is read with it
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...errors import StateError
from ...storage import max_document_bytes, open_storage
from ...storage.protocol import DOCUMENT_LIMIT_VARIABLE

__all__ = ["CheckpointFile", "Form", "read_checkpoint"]

Form = Literal["json", "torch"]

_ZIP = b"PK\x03\x04"
_OLD_TORCH = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # the first bytes of torch.save before version 1.6
_HINT = "save the loader's state in a separate file: torch.save(loader.save_state_rank(), path), or as JSON"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile:
    """A file and its content.

    Attributes:
        path: The file.
        form: The file's format.
        content: Nested dicts and lists; also tensors in a file of ``torch.save``.
    """

    path: str
    form: Form
    content: Any


def read_checkpoint(path: str | os.PathLike[str]) -> CheckpointFile:
    """Read a JSON file, or a file of ``torch.save``.

    A file of ``torch.save`` is read with ``weights_only=True``; the data of tensors is read at first access. A pickle
    that names other classes or functions is refused, and none of them is imported. Torch is imported only for such a
    file.

    Raises:
        StorageError: The file is missing, or cannot be read.
        StateError: The file has another format, is truncated, or holds objects that would run code.
    """
    folder, name = os.path.split(os.path.abspath(os.fspath(path)))
    storage = open_storage(folder)
    with storage.open(name) as file:
        head, size = file.read_at(0, 4096), file.size_bytes
    text = os.fspath(path)
    if head.startswith(_ZIP):
        content = _read_zip(storage.local_path(name), text)
        return CheckpointFile(path=text, form="torch", content=content)
    if head.startswith(_OLD_TORCH):
        _check_size(size, text)
        return CheckpointFile(path=text, form="torch", content=_load(storage.local_path(name), text, mmap=False))
    if head.lstrip()[:1] in (b"{", b"["):
        _check_size(size, text)
        return CheckpointFile(path=text, form="json", content=_read_json(storage.read(name), text))
    raise StateError(f"expected JSON or a file of torch.save, found {_kind(head)}", at=text, hint=_HINT)


def _read_json(data: bytes, path: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise StateError(
            f"this JSON cannot be read: {error}", at=path, hint="was the file written to its end?"
        ) from error


def _read_zip(path: Path, text: str) -> Any:
    try:
        with zipfile.ZipFile(path) as archive:
            pickles = [member for member in archive.infolist() if re.fullmatch(r"[^/]+/data\.pkl", member.filename)]
            if len(pickles) == 1:
                _check_size(pickles[0].file_size, text)
                _check_sum(archive, pickles[0])
    except StateError:
        raise
    except Exception as error:  # a damaged zip file raises a dozen kinds of errors
        raise StateError(
            f"this file of torch.save is damaged: {error}", at=text, hint="was it written to its end?"
        ) from error
    if len(pickles) != 1:
        raise StateError("torch.save did not write this zip file: it has no data.pkl", at=text, hint=_HINT)
    return _load(path, text, mmap=True)


def _check_sum(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Read the pickle to its end, where zipfile compares the checksum: torch does not, and would load wrong numbers."""
    if member.compress_type == zipfile.ZIP_STORED and member.CRC:  # torch can be told to write no checksums
        with archive.open(member) as file:
            while file.read(1 << 20):
                pass


def _load(path: Path, text: str, *, mmap: bool) -> Any:
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:
        raise _not_loaded(error, text) from error


def _not_loaded(error: Exception, path: str) -> StateError:
    reason = str(error).strip()
    named = re.search(r"GLOBAL (\S+) (?:was not|whose module)", reason)  # the wording of torch since version 2.4
    if named is None and not isinstance(error, pickle.UnpicklingError):
        first = reason.splitlines()[0] if reason else type(error).__name__
        return StateError(f"torch cannot read this file: {first}", at=path, hint="was it written to its end?")
    names = named[1] if named else "classes"
    if names.startswith("megatron.energon."):
        return StateError(
            f"this is a state of megatron-energon (it holds {names}), which cannot be restored here",
            at=path,
            hint="start the data of the run from the beginning",
        )
    return StateError(
        f"this file was not read: it holds objects of {names}, and reading such a pickle may run code",
        at=path,
        hint=_HINT,
    )


def _check_size(size_bytes: int, path: str) -> None:
    limit = max_document_bytes()  # the states of 10,000 ranks are a tenth of the default
    if size_bytes > limit:
        raise StateError(
            f"expected at most {limit >> 20} MiB of plain data, found {size_bytes >> 20} MiB",
            at=path,
            hint=f"{_HINT}; if it is one, set the environment variable {DOCUMENT_LIMIT_VARIABLE}={size_bytes}",
        )


def _kind(head: bytes) -> str:
    if not head:
        return "an empty file"
    if head[:1] == b"\x80":
        return "another pickle, which may run code when it is read"
    return f"a file that starts with {head[:16]!r}"
