"""Read the size of a JPEG XL picture from its first bytes (ISO/IEC 18181-1, annex D, and 18181-2)."""

from __future__ import annotations

_CODESTREAM = b"\xff\x0a"
_CONTAINER = b"\0\0\0\x0cJXL \r\n\x87\n"
_RATIOS = ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))  # of width and height
_SIDE_BITS = (9, 13, 18, 30)


def jxl_size(head: bytes) -> tuple[int, int] | None:
    """Return width and height; None for other files, and if the header is not among these bytes.

    >>> jxl_size(bytes.fromhex("ff0a 4d")), jxl_size(b"GIF89a")
    ((56, 56), None)
    """
    if head.startswith(_CONTAINER):
        head = _codestream(head)
    return _size(head[2:]) if head.startswith(_CODESTREAM) else None


def _codestream(head: bytes) -> bytes:
    """Return the first bytes of the picture in a file of boxes."""
    at = 0
    while at + 8 <= len(head):
        size_bytes, kind = int.from_bytes(head[at : at + 4], "big"), head[at + 4 : at + 8]
        begin = at + 8
        if size_bytes == 1:
            size_bytes, begin = int.from_bytes(head[begin : begin + 8], "big"), begin + 8
        if kind in (b"jxlc", b"jxlp"):
            return head[begin + 4 * (kind == b"jxlp") :]
        if size_bytes < 8:
            break
        at += size_bytes
    return b""


def _size(header: bytes) -> tuple[int, int]:
    bits = int.from_bytes(header[:10], "little")

    def take(count: int) -> int:
        nonlocal bits
        value, bits = bits & ((1 << count) - 1), bits >> count
        return value

    is_small = take(1)

    def side() -> int:
        return 8 * (take(5) + 1) if is_small else take(_SIDE_BITS[take(2)]) + 1

    height = side()
    ratio = take(3)
    if not ratio:
        return side(), height
    wide, high = _RATIOS[ratio - 1]
    return height * wide // high, height
