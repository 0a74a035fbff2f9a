"""Changes of single values in files that stay readable: arrays, JSON, states of torch, and checksummed scans."""

from __future__ import annotations

import io
import json
import random
import struct
import zlib
from typing import Any

import numpy as np
import torch

__all__ = ["change_array", "change_json", "change_scans", "change_torch"]

_NUMBERS = (0, 1, 2, 5, 10, 100, 511, 512, 1 << 15, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 62, (1 << 63) - 1)
_DTYPES = ("<i1", "<u2", "<i4", "<u4", "<i8", "<u8", ">u8", "<f4", "<f8", "<c16", "|b1", "|S8", "<U2", "<M8[ns]")
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 1 << 31, 1 << 63, 1 << 64, 10**30, -(1 << 63), 0.5, float("nan"), float("inf")),
    *("", "x", "0", "-1", "1e9", "\x1b[31m", "\u202e", "\ud800", "../../x", "/etc/passwd", "a" * 10_000),
    *([], {}, [0], [None], [[]], {"": 0}, {"\x1b": "\u202e"}, [0] * 1000, [-1, 1 << 70]),
)
_SCAN = struct.Struct("<16sQI")  # digest of a shard, length of its scan, CRC-32 of the scan


def change_array(data: bytes, chance: random.Random) -> bytes:
    """Change numbers of an array; a file of numpy may also get another type or shape."""
    if data.startswith(b"\x93NUMPY"):
        array = np.load(io.BytesIO(data), allow_pickle=False)
        changed = _changed_array(array, chance)
        file = io.BytesIO()
        np.save(file, changed)
        return file.getvalue()
    width = chance.choice((4, 8))
    start = chance.choice((0, 34, 16))  # token files and joins of megatron-energon have a header
    head, body = data[:start], data[start:]
    rows = np.frombuffer(body[: len(body) // width * width], f"<i{width}").copy()
    return bytes(head + _changed_numbers(rows, chance).tobytes() + body[len(rows) * width :])


def _changed_array(array: Any, chance: random.Random) -> Any:
    match chance.randrange(6):
        case 0:
            return array.astype(chance.choice(_DTYPES[:11]))
        case 1:
            other = np.dtype(chance.choice(_DTYPES))
            return np.frombuffer(array.tobytes()[: array.nbytes // other.itemsize * other.itemsize], other)
        case 2:
            return chance.choice((array[:-1], array[1:], array[:0], np.concatenate((array, array)), array[None]))
        case _:
            return _changed_numbers(array.copy(), chance)


def _changed_numbers(array: Any, chance: random.Random) -> Any:
    flat = array.reshape(-1)
    if not len(flat):
        return array
    match chance.randrange(5):
        case 0:
            order = list(range(len(flat)))
            chance.shuffle(order)
            flat[:] = flat[order]
        case 1:
            flat[:] = flat[::-1].copy()
        case 2:
            flat[:] = flat[chance.randrange(len(flat))]
        case _:
            for _ in range(chance.choice((1, 1, 3))):
                number = chance.choice(_NUMBERS) * chance.choice((1, 1, -1)) + chance.choice((0, 0, 1, -1))
                place = chance.choice((0, len(flat) - 1, chance.randrange(len(flat))))
                bits = 8 * flat.itemsize
                flat[place] = np.array([number % (1 << bits)], f"<u{flat.itemsize}").view(flat.dtype)[0]
    return array


def change_json(data: bytes, chance: random.Random) -> bytes:
    """Replace, remove or double a value of a JSON document, or of one line of several."""
    lines = data.splitlines()
    try:
        document, place = json.loads(data), None
    except ValueError:
        place = chance.randrange(len(lines))
        try:
            document = json.loads(lines[place])
        except ValueError:
            return data[:-1]
    text = json.dumps(_changed_value(document, chance), ensure_ascii=chance.random() < 0.5)
    if place is None:
        return text.encode("utf-8", "surrogatepass")
    lines[place] = text.encode("utf-8", "surrogatepass")
    return b"\n".join(lines) + b"\n"


def change_torch(data: bytes, chance: random.Random) -> bytes:
    """Replace a value of a file of ``torch.save``; its checksums are right again."""
    file = io.BytesIO()
    document = torch.load(io.BytesIO(data), weights_only=True)
    values = (*_VALUES, torch.zeros(3), torch.tensor(5), (1, 2), b"x", {1: 2}, {None: 1}, torch.float16, 1j)
    torch.save(_changed_value(document, chance, values), file)
    return file.getvalue()


def _changed_value(document: Any, chance: random.Random, values: tuple[Any, ...] = _VALUES) -> Any:
    """Return a document in which one value, at a random depth, is another one."""
    if not isinstance(document, dict | list) or not document or chance.random() < 0.15:
        if isinstance(document, int) and not isinstance(document, bool) and chance.random() < 0.5:
            return document + chance.choice((1, -1, 1000, 1 << 40, -document - 1))
        return chance.choice(values)
    if isinstance(document, list):
        place = chance.randrange(len(document))
        match chance.randrange(6):
            case 0:
                return document[:place] + document[place + 1 :]
            case 1:
                return [*document, document[place]]
            case _:
                return [*document[:place], _changed_value(document[place], chance, values), *document[place + 1 :]]
    name = chance.choice(list(document))
    match chance.randrange(8):
        case 0:
            return {other: value for other, value in document.items() if other != name}
        case 1:
            return {chance.choice(("\x1b]0;x\x07", "\u202e", "", "x", "1")): document[name], **document}
        case _:
            return {**document, name: _changed_value(document[name], chance, values)}


def change_scans(data: bytes, chance: random.Random) -> bytes:
    """Change the scan of a shard in the journal of an interrupted prepare, with the checksum of the changed one."""
    scans, start = [], 0
    while start + _SCAN.size <= len(data):
        digest, length, _ = _SCAN.unpack_from(data, start)
        start += _SCAN.size
        scans.append((digest, data[start : start + length]))
        start += length
    place = chance.randrange(len(scans))
    digest, scan = scans[place]
    header, line, columns = scan.partition(b"\n")
    if chance.random() < 0.5:
        header = json.dumps(_changed_value(json.loads(header), chance)).encode()
    else:
        columns = change_array(columns, chance)
    scans[place] = digest, header + line + columns
    return b"".join(_SCAN.pack(digest, len(scan), zlib.crc32(scan)) + scan for digest, scan in scans)
