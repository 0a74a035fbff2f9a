"""Build tar files byte by byte, so that each field can be wrong."""

from __future__ import annotations

BLOCK = 512
END = bytes(2 * BLOCK)
POSIX, GNU, V7 = b"ustar\x0000", b"ustar  \0", bytes(8)


def header(
    name: bytes = b"a.txt",
    size: int | bytes = 0,
    kind: bytes = b"0",
    *,
    magic: bytes = POSIX,
    prefix: bytes = b"",
    checksum: int | bytes | None = None,
) -> bytes:
    """Return a header; ``size`` and ``checksum`` may be given as the bytes of the field."""
    stated = size if isinstance(size, bytes) else b"%011o\0" % size
    fields = [
        name.ljust(100, b"\0"),
        b"0000644\0" + b"0000000\0" * 2,
        stated.ljust(12, b"\0"),
        b"00000000000\0",
        b" " * 8,
        kind,
        bytes(100),
        magic,
        bytes(80),
        prefix.ljust(155, b"\0"),
    ]
    block = b"".join(fields).ljust(BLOCK, b"\0")
    assert len(block) == BLOCK
    if checksum is None:
        checksum = sum(block)
    stored = checksum if isinstance(checksum, bytes) else b"%06o\0 " % checksum
    return block[:148] + stored.ljust(8, b"\0") + block[156:]


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def member(name: bytes = b"a.txt", data: bytes = b"hello", kind: bytes = b"0", **fields: bytes) -> bytes:
    return header(name, len(data), kind, **fields) + padded(data)


def record(keyword: bytes, value: bytes) -> bytes:
    """Return a PAX record; its length includes its own digits."""
    rest = b" " + keyword + b"=" + value + b"\n"
    length = len(rest)
    while length != len(rest) + len(b"%d" % length):
        length = len(rest) + len(b"%d" % length)
    return b"%d" % length + rest


def pax(*records: bytes, kind: bytes = b"x") -> bytes:
    return member(b"PaxHeaders/x", b"".join(records), kind)


def base256(value: int, width: int = 12) -> bytes:
    return ((value % (1 << (8 * width))) | (1 << (8 * width - 1))).to_bytes(width, "big")
