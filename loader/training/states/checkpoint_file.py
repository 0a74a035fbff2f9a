"""Read files of checkpoints, JSON or written by ``torch.save``.

No code from a file is run, and torch is not needed. A hostile file is refused in about the time that reading its bytes
takes: its values are counted before they are made.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import zipfile
from typing import Any, ClassVar, Literal

from ...errors import EnergonError, StateError
from ...storage import FileStream, max_document_bytes, open_parent
from ...storage.protocol import DOCUMENT_LIMIT_VARIABLE
from .state_size import HINT, max_values, too_many_values

Form = Literal["json", "torch"]

_ZIP = b"PK\x03\x04"
_OLD_TORCH = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # the first bytes of torch.save before version 1.6
_OLD_TORCH_PICKLES = 3  # before that of the object: a magic number, the version, facts of the machine
# zipfile reads a few bytes at a time; each would be a request to remote storage.
_READ_AT_ONCE = 1 << 16
_MAX_DIRECTORY_BYTES = 1 << 24  # the list of the records of a zip file; 200,000 tensors
# The instructions of pickles that torch.save writes, other than those with a function of their own.
_INSTRUCTIONS = b"qrKhj(]})N\x88\x89eat\x85\x86\x87R\x81QMJ\x8aGXc.\x80"
_PLAIN_MODULES = {
    "torch",
    "torch._utils",
    "torch._tensor",
    "torch.nn.parameter",
    "torch.serialization",
    "torch.storage",
}
"""Modules whose objects are read as opaque values; ``torch.load(weights_only=True)`` decides about each of them."""
_DICTS = {"collections.OrderedDict", "collections.Counter", "collections.defaultdict"}
_OTHERS = {
    "_codecs.encode",
    *(f"{module}.{name}" for module in ("builtins", "__builtin__") for name in ("bytearray", "complex", "set")),
}


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[Form, Any]:
    """Read a JSON file, or the plain data in a file of ``torch.save``.

    Returns its format, and its content: nested dicts and lists; in a file of ``torch.save`` also
    :class:`Opaque` values.

    Tensors are not read. A pickle that names other classes or functions is refused, and none of them is imported.
    """
    storage, name = open_parent(path)
    text = os.fspath(path)
    with storage.open(name) as file:
        head, size = file.read_at(0, 4096), file.size_bytes
        if head.startswith(_ZIP):
            pickled = _read_zip(_LimitedReads(FileStream(file), _READ_AT_ONCE), text)
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


class _LimitedReads(io.BufferedReader):
    """A file in which zipfile cannot read a list of records that would take it minutes."""

    limit: int | None = _MAX_DIRECTORY_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        if self.limit is not None and (size or 0) > self.limit:
            raise StateError(
                f"expected a file of at most 200,000 tensors, found a list of records of {(size or 0) >> 20} MiB",
                hint=HINT,
            )
        return super().read(size)


def _read_zip(file: _LimitedReads, text: str) -> bytes:
    """Return the pickle in a file of torch.save; its checksum is compared."""
    try:
        with zipfile.ZipFile(file) as archive:
            file.limit = None
            # The records of tensors are not read: a state has none.
            pickles = [member for member in archive.infolist() if re.fullmatch(r"[^/]+/data\.pkl", member.filename)]
            if len(pickles) == 1:
                member = pickles[0]
                _check_size(member.file_size, text)
                if not member.CRC:  # torch can be told to write no checksums
                    del member.CRC
                return archive.read(member)
    except EnergonError as error:
        error.at = text
        raise
    except Exception as error:  # a damaged zip file raises a dozen kinds of errors
        raise StateError(
            f"this file of torch.save is damaged: {error}", at=text, hint="was it written to its end?"
        ) from error
    raise StateError("torch.save did not write this zip file: it has no data.pkl", at=text, hint=HINT)


class Opaque:
    """A value that is no plain data: a tensor, a storage, a class. It drops all that a pickle gives it."""

    def __init__(self, *_: Any) -> None: ...

    append = extend = __setitem__ = __init__


class _Dict:
    """Represent the classes of dicts, which become plain ones."""

    def __new__(cls, *_: Any) -> Any:
        return {}


class _Instructions(io.BytesIO):
    """The bytes of a pickle, with a limit of the reads from it."""

    reads_left = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads_left -= 1
        if self.reads_left < 0:
            raise too_many_values()
        data = super().read(size)
        if len(data) < (size or 0):
            raise EOFError("it is cut off")
        return data


def _refuse_integer(_: Any) -> None:
    raise ValueError("an integer has thousands of digits")  # Python takes ages to print it


class _PlainUnpickler(pickle._Unpickler):  # noqa: SLF001 - the one in C has no limits and cannot be given any
    """Python's own unpickler, which imports nothing here: each class is one that drops its arguments."""

    stack: list[Any]
    dispatch: ClassVar[dict[int, Any]] = {
        **{code: pickle._Unpickler.dispatch[code] for code in _INSTRUCTIONS},  # noqa: SLF001
        ord("b"): lambda self: self.stack.pop(),  # attributes are not read
        ord("s"): lambda self: self.set_items([self.stack.pop(-2), self.stack.pop()]),
        ord("u"): lambda self: self.set_items(self.pop_mark()),
        0x8B: _refuse_integer,  # shorter ones have another instruction
    }

    def set_items(self, items: list[Any]) -> None:
        """Set items of a dict, without the hashes of tuples: of nested ones they would take ages."""
        for key, value in zip(items[::2], items[1::2], strict=True):
            self.stack[-1][key if key is None or isinstance(key, str | int | float) else Opaque()] = value

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if module not in _PLAIN_MODULES and full not in _DICTS and full not in _OTHERS:
            raise _unknown(full)
        name = "Tensor" if "_rebuild" in name else name.rpartition(".")[2]
        return type(name, (_Dict if full in _DICTS else Opaque,), {})

    def persistent_load(self, pid: Any) -> Any:  # noqa: ARG002 - data of a tensor
        return Opaque()


def _unpickle(data: bytes, path: str, *, skipped: int = 0) -> Any:
    """Return the value of a pickle, after a number of others."""
    value = None
    file = _Instructions(data)
    file.reads_left = 4 * max_values()  # most values take two instructions, of a code and an argument
    try:
        for _ in range(skipped + 1):
            value = _PlainUnpickler(file).load()
    except StateError as error:
        error.at = path
        raise
    except KeyError as error:
        reason = f"its pickle has the instruction {error}, which torch.save does not write"
        raise _unreadable(reason, path) from error
    except Exception as error:  # damaged pickles raise many kinds of errors
        raise _unreadable(f"its pickle is damaged ({type(error).__name__}: {error})", path) from error
    return value


def _unreadable(reason: str, path: str) -> StateError:
    return StateError(f"this file of torch.save cannot be read: {reason}", at=path, hint="was it written to its end?")


def _unknown(name: str) -> StateError:
    if name.startswith("megatron.energon."):
        return StateError(
            f"this is a state of megatron-energon (it holds {name}), which cannot be restored here",
            hint="start the data of the run from the beginning",
        )
    return StateError(
        f"this file was not read: it holds objects of {name}, and reading such a pickle may run code",
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
