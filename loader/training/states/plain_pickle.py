"""Read the plain data in a pickle of ``torch.save``, in bounded time and memory, without running code from it.

Python's own unpickler is no protection: a hundred megabytes of one-byte instructions become gigabytes of objects, and a
kilobyte of nested tuples takes ages to hash. This one executes the instructions that ``torch.save`` writes, counts
them, and imports nothing. Tensors and other objects of torch become :class:`Opaque` values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite
from struct import error as struct_error, unpack_from
from typing import Any

import numpy as np

from ...errors import StateError, plural
from ...storage import max_document_bytes
from ...storage.protocol import DOCUMENT_LIMIT_VARIABLE

HINT = "save the loader's state in a separate file: torch.save(loader.save_state_rank(), path), or as JSON"

_BYTES_PER_VALUE = 64
"""Share of the limit of bytes that allows one value. The states of 10,000 ranks have three million values."""

_MAX_DEPTH = 200  # chains of stages nest one level for each stage
_PLAIN_TYPES = (str, int, float, type(None))  # a bool is an int


def max_values() -> int:
    """Return the limit of the values in a file."""
    return max(max_document_bytes() // _BYTES_PER_VALUE, 1)


def too_many_values(path: str | None = None) -> StateError:
    """Return the error for a file with more values than :func:`max_values`."""
    needed = max_document_bytes() * 4
    return StateError(
        f"expected a state of at most {max_values():,} values, found more",
        at=path,
        hint=f"{HINT}; if it is one, set the environment variable {DOCUMENT_LIMIT_VARIABLE}={needed}",
    )


def check_plain(state: Any, limit: int | None = None, *, is_json: bool = False) -> int:
    """Check that a state is plain data, no larger and no deeper than states are; return its number of values.

    Values that are referenced several times count each time, and long strings count as several.

    Args:
        limit: The largest number of values; None: :func:`max_values`.
        is_json: Refuse what JSON cannot represent, too: keys that are neither strings nor integers, infinite numbers,
            and numbers of numpy, to which some frameworks convert Python's.
    """
    limit = max_values() if limit is None else limit
    plain_types = _PLAIN_TYPES if is_json else (*_PLAIN_TYPES, np.number)
    level = {0: (1, state)}  # each value once, with its references: a few lists can nest to billions of values
    values = 0
    for _ in range(_MAX_DEPTH + 1):
        below: dict[int, tuple[int, Any]] = {}
        for references, outer in level.values():
            # Check the value itself, and count it.
            size = 1
            inner_values: Collection[Any] = ()
            if isinstance(outer, Mapping):
                names = [key for key in outer if isinstance(key, str)]
                if is_json and len(names) + sum(type(key) is int for key in outer) < len(outer):
                    raise StateError("this state is damaged: it has keys that are neither strings nor integers")
                size += sum(map(len, names)) // _BYTES_PER_VALUE
                inner_values = outer.values()
            elif isinstance(outer, list | tuple):
                inner_values = outer
            elif isinstance(outer, str):
                size += len(outer) // _BYTES_PER_VALUE
            elif isinstance(outer, float) and is_json and not isfinite(outer):
                raise StateError(f"this state is damaged: it holds {outer}, which JSON cannot represent")
            elif not isinstance(outer, plain_types):
                name = outer.name if isinstance(outer, Opaque) else type(outer).__name__
                raise StateError(f"this state is damaged: it holds a {name}, and a state is plain data")
            values += references * size
            # Collect the values in it for the next level.
            for inner in inner_values:
                before = below.get(id(inner))
                below[id(inner)] = (references if before is None else references + before[0], inner)
            if values + len(below) > limit:
                raise too_many_values()
        if not below:
            return values
        level = below
    raise StateError("this state is damaged: it nests deeper than the states that loaders save")


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
# Far above the largest seed; Python takes ages to print integers of millions of digits.
_MAX_INTEGER_BYTES = 1024
# A value that no pickle can hold, so that it marks a place on the stack.
_MARK = object()


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """A value that is no plain data: a tensor, a storage, a class."""

    name: str


class UnknownGlobalError(ValueError):
    """The pickle names a class or function of unknown effect; the argument is its name."""


class PickleLimitError(ValueError):
    """The pickle has more instructions than allowed."""


def read_pickle(data: bytes, *, start: int = 0, max_instructions: int) -> tuple[Any, int]:
    """Read one pickle.

    Args:
        data: A pickle of protocol 2; other data may follow.
        max_instructions: Limit of its instructions. Each takes less than a microsecond, and makes at most one object.

    Raises:
        UnknownGlobalError: It names a class or function that tensors do not need.
        PickleLimitError: It has too many instructions.
        ValueError: It is damaged, or has instructions that ``torch.save`` does not write.
    """
    try:
        return _run(data, start, max_instructions)
    except (IndexError, KeyError, TypeError, AttributeError, UnicodeDecodeError, struct_error) as error:
        raise ValueError(f"its pickle is damaged ({type(error).__name__}: {error})") from error


def _run(data: bytes, at: int, max_instructions: int) -> tuple[Any, int]:
    """Execute the pickle at an offset; a branch for each frequent instruction is faster than a function."""
    # The frequent instructions come first.
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    for _ in range(max_instructions):
        code = data[at]
        at += 1
        if code == 0x71:  # q, BINPUT
            memo[data[at]] = stack[-1]
            at += 1
        elif code == 0x72:  # r, LONG_BINPUT
            memo[unpack_from("<I", data, at)[0]] = stack[-1]
            at += 4
        elif code == 0x4B:  # K, BININT1
            stack.append(data[at])
            at += 1
        elif code == 0x68:  # h, BINGET
            stack.append(memo[data[at]])
            at += 1
        elif code == 0x6A:  # j, LONG_BINGET
            stack.append(memo[unpack_from("<I", data, at)[0]])
            at += 4
        elif code in _STACK_CHANGES:
            _STACK_CHANGES[code](stack)
        elif code in _VALUES:
            value, at = _VALUES[code](data, at)
            stack.append(value)
        elif code == 0x2E:  # STOP
            return stack.pop(), at
        elif code == 0x80:  # PROTO
            at = _check_protocol(data, at)
        else:
            raise ValueError(f"its pickle has the instruction {code:#x}, which torch.save does not write")
        if at > len(data):
            raise IndexError("it is cut off")
    raise PickleLimitError(f"more than {plural(max_instructions, 'instruction')}")


def _check_protocol(data: bytes, at: int) -> int:
    if data[at] != 2:
        raise ValueError(f"its pickle has protocol {data[at]}, torch.save writes protocol 2")
    return at + 1


# ------------------------------------------------------------------------------- instructions that contain a value


def _two_bytes(data: bytes, at: int) -> tuple[int, int]:
    return data[at] | data[at + 1] << 8, at + 2


def _four_bytes(data: bytes, at: int) -> tuple[int, int]:
    return unpack_from("<i", data, at)[0], at + 4


def _integer(data: bytes, at: int, width: int) -> tuple[int, int]:
    """Read an integer after its number of bytes, which has itself ``width`` bytes."""
    start = at + width
    end = start + int.from_bytes(data[at:start], "little")
    if end - start > _MAX_INTEGER_BYTES:
        raise ValueError("its pickle is damaged (an integer has thousands of digits)")
    return int.from_bytes(_checked_slice(data, start, end), "little", signed=True), end


def _float(data: bytes, at: int) -> tuple[float, int]:
    return unpack_from(">d", data, at)[0], at + 8


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = at + 4 + unpack_from("<I", data, at)[0]
    return _checked_slice(data, at + 4, end).decode("utf-8", "surrogatepass"), end


def _checked_slice(data: bytes, start: int, end: int) -> bytes:
    if end > len(data):
        raise IndexError("it is cut off")
    return data[start:end]


def _global(data: bytes, at: int) -> tuple[Opaque, int]:
    middle = data.index(b"\n", at, at + 1024)
    end = data.index(b"\n", middle + 1, middle + 1024)
    module, name = data[at:middle].decode(), data[middle + 1 : end].decode()
    full = f"{module}.{name}"
    if module not in _PLAIN_MODULES and full not in _DICTS and full not in _OTHERS:
        raise UnknownGlobalError(full)
    return Opaque(full), end + 1


_VALUES: dict[int, Callable[[bytes, int], tuple[Any, int]]] = {
    ord("M"): _two_bytes,
    ord("J"): _four_bytes,
    0x8A: partial(_integer, width=1),  # LONG1
    0x8B: partial(_integer, width=4),  # LONG4
    ord("G"): _float,
    ord("X"): _text,
    ord("c"): _global,
}
"""Functions of the pickle and the offset of the value, which return the value and the offset of its end."""

# ------------------------------------------------------------------------------- instructions that change the stack


def _pop_mark(stack: list[Any]) -> list[Any]:
    for depth in range(len(stack) - 1, -1, -1):
        if stack[depth] is _MARK:
            values = stack[depth + 1 :]
            del stack[depth:]
            return values
    raise IndexError("a mark is missing")


def _append(stack: list[Any]) -> None:
    value = stack.pop()
    _extend(stack[-1], [value])


def _appends(stack: list[Any]) -> None:
    values = _pop_mark(stack)
    _extend(stack[-1], values)


def _extend(target: Any, values: list[Any]) -> None:
    if type(target) is list:
        target += values
    elif not isinstance(target, Opaque):
        raise TypeError(f"it appends to a {type(target).__name__}")


def _set_item(stack: list[Any]) -> None:
    value, key = stack.pop(), stack.pop()
    _update(stack[-1], [key, value])


def _set_items(stack: list[Any]) -> None:
    values = _pop_mark(stack)
    _update(stack[-1], values)


def _update(target: Any, values: list[Any]) -> None:
    if type(target) is dict:
        for key, value in zip(values[::2], values[1::2], strict=True):
            # Nested tuples would take ages to hash.
            target[key if key is None or isinstance(key, str | int | float | Opaque) else Opaque("tuple")] = value
    elif not isinstance(target, Opaque):
        raise TypeError(f"it sets items of a {type(target).__name__}")


def _reduce(stack: list[Any]) -> None:
    _, made = stack.pop(), stack.pop().name
    if made in _DICTS:
        stack.append({})
    else:
        stack.append(Opaque("Tensor" if "_rebuild" in made else made.rpartition(".")[2]))


def _build(stack: list[Any]) -> None:
    stack.pop()
    if not isinstance(stack[-1], dict | Opaque):  # a dict of a model has attributes, too
        raise TypeError(f"it sets attributes of a {type(stack[-1]).__name__}")


def _persistent(stack: list[Any]) -> None:
    stack[-1] = Opaque("storage")


def _tuple_of(count: int) -> Any:
    def pack(stack: list[Any]) -> None:
        if len(stack) < count:
            raise IndexError("a tuple lacks values")
        stack[-count:] = [tuple(stack[-count:])]

    return pack


_STACK_CHANGES = {
    ord("("): lambda stack: stack.append(_MARK),
    ord("]"): lambda stack: stack.append([]),
    ord("}"): lambda stack: stack.append({}),
    ord(")"): lambda stack: stack.append(()),
    ord("N"): lambda stack: stack.append(None),
    0x88: lambda stack: stack.append(True),
    0x89: lambda stack: stack.append(False),
    ord("e"): _appends,
    ord("a"): _append,
    ord("u"): _set_items,
    ord("s"): _set_item,
    ord("t"): lambda stack: stack.append(tuple(_pop_mark(stack))),
    0x85: _tuple_of(1),
    0x86: _tuple_of(2),
    0x87: _tuple_of(3),
    ord("R"): _reduce,
    0x81: _reduce,  # NEWOBJ
    ord("b"): _build,
    ord("Q"): _persistent,
}
"""Functions of the stack."""
