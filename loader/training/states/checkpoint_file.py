"""Read files of checkpoints, JSON or written by ``torch.save``, and find the states of loaders in them.

No code from a file is run. States are rewritten within a checkpoint of Lightning. A hostile file is refused in about
the time that reading its bytes takes: its values are counted before they are made.
"""

from __future__ import annotations

import io
import json
import os
import re
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

from ...errors import EnergonError, StateError
from ...storage import EPath, FileStream, max_document_bytes, open_parent, open_storage
from ...storage.protocol import DOCUMENT_LIMIT_VARIABLE
from .plain_pickle import (
    HINT,
    PickleLimitError,
    UnknownGlobalError,
    check_plain,
    max_values,
    read_pickle,
    too_many_values,
)
from .run_state import RunState

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


def load_with_tensors(path: str) -> Any:
    """Load a file of ``torch.save`` that :func:`read_checkpoint` accepted, with its tensors on the CPU.

    The data of tensors is read when it is used.
    """
    import torch

    try:
        return torch.load(EPath(path).local_path(), map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise StateError(f"torch cannot read this file: {reason}", at=path, hint=HINT) from error


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


ALL_RANKS = "states of all ranks"
"""The key under which ``state_dict()`` of a loader has the states of all ranks."""


_VERSION_KEY = "pytorch-lightning_version"


_LOADERS_KEY = "combined_loader"


def is_lightning(content: Any) -> bool:
    """Return True if the content of a file is a checkpoint of Lightning."""
    return isinstance(content, Mapping) and _VERSION_KEY in content


def rewrite_lightning(
    path: str,
    placed: Sequence[FoundState],
    convert: Callable[[Sequence[RunState]], list[RunState]],
    folder: str | os.PathLike[str],
) -> list[RunState]:
    """Write a checkpoint with converted states of all its loaders.

    Args:
        folder: The folder for the new checkpoint, which has the name of the old one.
    """
    import torch

    slots: dict[tuple[Place, bool], list[RunState]] = {}
    for placed_state in placed:
        slots.setdefault(_slot(placed_state), []).append(placed_state.state)
    converted = {slot: convert(states) for slot, states in slots.items()}
    content = load_with_tensors(path)
    for (keys, is_framework_state), parts in converted.items():
        plain = [part.to_plain() for part in parts]
        _replace(content, keys, {ALL_RANKS: plain} if is_framework_state else plain)
    with open_storage(folder).create(os.path.basename(path)) as file:
        torch.save(content, file)
    return next(iter(converted.values()))


def _slot(placed: FoundState) -> tuple[Place, bool]:
    """Return the place of a loader's states, and True if they are there as the result of ``state_dict()``."""
    keys = placed.place
    if keys[-2:-1] == (ALL_RANKS,):
        return keys[:-2], True
    if keys[-2:-1] == (_LOADERS_KEY,):
        return keys, True
    if keys and isinstance(keys[-1], int):
        return keys[:-1], False
    raise StateError(
        f"expected the states of all ranks, found that of rank {placed.state.rank} at {place_text(keys)}",
        hint="save the result of state_dict() or save_state_global() in the data module's state",
    )


def _replace(content: Any, keys: Place, value: Any) -> None:
    for key in keys[:-1]:
        content = content[_key(content, key)]
    content[_key(content, keys[-1])] = value


def _key(content: Any, name: str | int) -> Any:
    """Return the key that a place names: places have the texts of keys."""
    return next(key for key in content if str(key) == name) if isinstance(content, Mapping) else name


Place = tuple[str | int, ...]
"""The keys and positions that lead to a value."""


_STATE_KEYS = frozenset({"version", "lanes", "ranks", "rank", "lane"})


_MAX_DEPTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundState:
    """A state and its place in the document."""

    place: Place
    state: RunState


def find_states(document: Any, *, allow_edited: bool = False) -> list[FoundState]:
    """Find all states of ranks in nested dicts and lists, in their order.

    Args:
        document: The content of a checkpoint. Values other than dicts, lists and tuples are ignored, and so are values
            nested deeper than 64 levels.

    >>> find_states({"model": {}, "step": 3})
    []
    """
    states = []
    allowed = max_values()  # in all states: they may share their values, which are then visited once for each
    for keys, value in _mappings(document):
        try:
            allowed -= check_plain(value, allowed, is_json=True)
            state = RunState.from_plain(value, allow_edited=allow_edited)
        except StateError as error:
            error.at = place_text(keys) or None
            raise
        states.append(FoundState(place=keys, state=state))
    return states


def place_text(keys: Place) -> str:
    """Return a place as a Python expression.

    >>> place_text(("data", "loader", 0))
    'data.loader[0]'
    """
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def _mappings(document: Any) -> Iterator[tuple[Place, Mapping[Any, Any]]]:
    """Yield the mappings that have the keys of a state, with their places."""
    # Walk the document depth-first, with the rest of each level on a stack.
    seen: set[int] = set()  # a pickle may hold reference cycles, or few lists that nest to billions by references
    limit = max_values()
    keys: list[str | int] = []  # the document itself has a key, too, which is not part of places
    levels: list[Iterator[tuple[str | int, Any]]] = [iter([("", document)])]  # entries that remain, by depth
    while levels:
        entry = next(levels[-1], None)
        # A level is over: return to the one above.
        if entry is None:
            levels.pop()
            del keys[len(levels) - 1 :]
            continue
        key, value = entry
        # Visit each container once.
        if not isinstance(value, Mapping | list | tuple) or id(value) in seen or len(levels) > _MAX_DEPTH:
            continue
        seen.add(id(value))
        if len(seen) > limit:
            raise too_many_values()
        # A state ends the descent: its inner values are no states.
        if isinstance(value, Mapping) and value.keys() >= _STATE_KEYS:
            yield (*keys, key)[1:], value
        else:
            keys.append(key)
            levels.append(_entries(value))


def _entries(value: Mapping[Any, Any] | Sequence[Any]) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, Mapping):
        return ((str(key), inner) for key, inner in value.items())
    return iter(enumerate(value))
