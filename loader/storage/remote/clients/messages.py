"""Messages between a process and its helper: pickled tuples, each preceded by its length.

Only these two processes hold the pipes, so the pickles are safe to load.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any, BinaryIO

_LENGTH = struct.Struct("<Q")


def read_message(stream: BinaryIO) -> Any:
    """Read one message.

    Raises:
        EOFError: The other process has ended.
    """
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    data = stream.read(_LENGTH.unpack(head)[0])
    return pickle.loads(data)  # noqa: S301 - written by the other end of a pipe of our own


def write_message(stream: BinaryIO, message: Any) -> None:
    """Write one message."""
    data = pickle.dumps(message, protocol=5)
    rest = memoryview(_LENGTH.pack(len(data)) + data)
    while rest:  # the stream has no buffer, which a fork would copy with a half of a message in it
        rest = rest[stream.write(rest) :]
