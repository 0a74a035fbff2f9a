"""Seeded mutations of files: bytes, numbers, lengths and, in texts, hostile words."""

from __future__ import annotations

import random
import struct

__all__ = ["mutate"]

_WORDS = (
    *(
        b"\x1b]0;x\x07",
        b"\xe2\x80\xae",
        b"\xff\xfe",
        b"\0",
        b"\n",
        b"../../",
        b"/etc/passwd",
        b"%s%n",
        b"{}",
        b"[",
        b"{",
    ),
    *(b"!!python/object/apply:os.system [touch owned]", b"&a [*a]", b"*a", b"<<: *a", b"null", b"true", b"NaN", b"-1"),
    *(
        b"1e999",
        b"9" * 40,
        b"${HOME}",
        b"{0..999999999}",
        b"__module__: os",
        b"__class__: system",
        b"- - - -",
        b'"\\e[31m"',
    ),
)
_NUMBERS = (
    0,
    1,
    2,
    127,
    255,
    511,
    512,
    1 << 15,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    (1 << 63) - 1,
    (1 << 64) - 1,
)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes of a file after one to four mutations."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        place = chance.randrange(len(changed) + 1)
        end = min(len(changed), place + chance.choice((1, 1, 4, 8, 64, 512)))
        match chance.randrange(9):
            case 0:
                changed = changed[:place]
            case 1:
                changed[place:end] = bytes(chance.randrange(256) for _ in range(end - place))
            case 2:
                changed[place:end] = b""
            case 3:
                changed[place:place] = changed[place:end] * chance.choice((1, 2, 50))
            case 4:
                changed[place:end] = bytes([chance.choice((0, 255, 32, 48))]) * (end - place)
            case 5:
                changed[place:place] = chance.choice(_WORDS)
            case 6:
                word = chance.choice(_WORDS)
                changed[place : place + len(word)] = word
            case 7:
                place -= place % 8
                number = struct.pack(chance.choice(("<Q", ">Q")), chance.choice(_NUMBERS))
                changed[place : place + 8] = number
            case _:
                if changed:
                    place = min(place, len(changed) - 1)
                    changed[place] ^= 1 << chance.randrange(8)
    return bytes(changed)
