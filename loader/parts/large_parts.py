"""Parts that a command does not parse, because a small file of JSON fills many times its size in memory."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Self

from .kinds import is_compressed, kind_of_name, part_extension

SHOWN_JSON_BYTES = 16 << 20
"""Default limit of commands that look at few samples: the values of JSON take up to thirty times its size."""

CHECKED_JSON_BYTES = 64 << 20
"""Default limit of commands that check all samples."""

HEAD_BYTES = 64 << 10
"""Number of the first bytes of a large part, which are shown."""
_BINARY = ("cbor", "mp", "msg")
_WINDOW = 16 + zlib.MAX_WBITS  # with the header of gzip


class LargePart(bytes):
    """A part with known first bytes and unknown rest. As bytes it is one byte, which no decoder accepts.

    Attributes:
        size_bytes: Size of the part; for a compressed part, the size of what was decompressed.
        head: Its first bytes.
    """

    size_bytes: int
    limit: int
    head: bytes

    def __new__(cls, size_bytes: int, limit: int, head: bytes) -> Self:
        part = super().__new__(cls, b"\xc1")  # neither UTF-8 nor MessagePack, CBOR or gzip
        part.size_bytes, part.limit, part.head = size_bytes, limit, head[:HEAD_BYTES]
        return part

    @property
    def fault(self) -> str:
        """Why the part is not parsed, as the end of a sentence about it."""
        return f"more than --max-json-bytes {self.limit:,}, so it is not parsed (energon rule W310)"


class LargePartError(ValueError):
    """A part that is not parsed, because it is larger than a limit."""

    def __init__(self, part: LargePart) -> None:
        super().__init__(f"it has {part.size_bytes:,} bytes, {part.fault}")


@lru_cache(maxsize=1000)
def is_limited(part_name: str) -> bool:
    """Return True for parts that are parsed to values, or decompressed.

    >>> is_limited("json"), is_limited("mp"), is_limited("txt.gz"), is_limited("txt")
    (True, True, True, False)
    """
    return is_compressed(part_name) or kind_of_name(part_name) == "tree"


def is_too_large(part_name: str, size_bytes: int, limit: int) -> bool:
    """Return True for parts that a limit keeps from being parsed; an empty map of MessagePack and CBOR is one byte.

    >>> is_too_large("json", 9, 8), is_too_large("mp", 3, 8), is_too_large("txt", 9, 8)
    (True, True, False)
    """
    is_binary = part_extension(part_name) in _BINARY
    return is_limited(part_name) and size_bytes > (limit // 4 if is_binary else limit)


def limit_parts(parts: Mapping[str, Any], max_json_bytes: int | None) -> dict[str, Any]:
    """Return parts, those whose values or contents would be too large as :class:`LargePart`.

    Args:
        parts: Part name → bytes or value.
        max_json_bytes: Most bytes of a part that is parsed or decompressed; None for no limit.
    """
    if max_json_bytes is None:
        return dict(parts)
    return {name: _limited(name, data, max_json_bytes) for name, data in parts.items()}


def _limited(name: str, data: Any, limit: int) -> Any:
    if not isinstance(data, bytes) or isinstance(data, LargePart) or not is_limited(name):
        return data
    if is_too_large(name, len(data), limit):
        return LargePart(len(data), limit, data)
    # Compare the size after decompression, without keeping the contents.
    if is_compressed(name):
        unpacker, size_bytes, head, rest = zlib.decompressobj(_WINDOW), 0, b"", data
        try:
            while rest and size_bytes <= limit:
                piece = unpacker.decompress(rest, 1 << 20)
                head, size_bytes = head or piece, size_bytes + len(piece)
                rest = unpacker.unconsumed_tail or unpacker.unused_data
                unpacker = zlib.decompressobj(_WINDOW) if unpacker.eof else unpacker
        except zlib.error:
            return data  # its decoder names the damage
        if size_bytes > limit:
            return LargePart(size_bytes, limit, head)
    return data
