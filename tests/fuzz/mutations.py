"""Seeded mutations of files: bytes, numbers, lengths and, in texts, hostile words."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping

from tests.fuzz.structures import change_array, change_json, change_scans, change_torch

__all__ = ["mutate"]

_CONTROLS = (
    *(b"\x1b]0;x\x07", b"\x1b[2J", b"\xc2\x9b31m", b"\x9b31m", b"\r", b"\0", b"\n", b"\x08", b"\x7f"),
    *("\u202e", "\u2066", "\u200b", "\u200f", "\u2028", "\ufeff", "\u061c", "\U000e0041", "\ufffe"),
)
_CODE = (
    *("!!python/object/apply:os.system [touch owned]", "__module__: os", "__class__: system", "${HOME}", "%s%n"),
    *("sample_loader: sample_loader.py:sample_loader", "import os; os.system('touch owned')"),
)
_PATHS = ("../../", "/etc/passwd", "file:///etc", "s3://x/y", "..", "~", "/dev/zero")
_SYNTAX = (
    *("{}", "[", "{", "- - - -", "&a [*a]", "*a", "<<: *a", "null", "true", "NaN", "-1", "1e999", "9" * 40),
    *("{0..999999999}", '"\\e[31m"', '"\\u202e"', '"\\u001b[31m"', '"\\ud800"', ": ", "? ", "!!binary x", "[" * 5000),
)
_WORDS = tuple(word if isinstance(word, bytes) else word.encode() for word in (*_CONTROLS, *_CODE, *_PATHS, *_SYNTAX))
_NUMBERS = (
    *(0, 1, 2, 127, 255, 511, 512, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1),
    (1 << 64) - 1,
)
_FORMS: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
    **dict.fromkeys((".npy", ".idx", ".bin"), change_array),
    **dict.fromkeys((".json", ".jsonl"), change_json),
    ".pt": change_torch,
    ".scans": change_scans,
}


def mutate(data: bytes, chance: random.Random, suffix: str = "") -> bytes:
    """Return the contents of a file after one to four mutations.

    Args:
        data: The contents.
        chance: Source of the choices.
        suffix: Suffix of the file's name; half of the files with a known one stay readable, with other values.
    """
    if suffix in _FORMS and data and chance.random() < 0.5:
        return _FORMS[suffix](data, chance)
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        _change_bytes(changed, chance)
    return bytes(changed)


def _change_bytes(changed: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(changed) + 1)
    end = min(len(changed), place + chance.choice((1, 1, 4, 8, 64, 512)))
    match chance.randrange(9):
        case 0:
            del changed[place:]
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
                changed[min(place, len(changed) - 1)] ^= 1 << chance.randrange(8)
