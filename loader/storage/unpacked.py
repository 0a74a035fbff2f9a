"""Read compressed files that a stranger may have made: a small one may hold petabytes."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

from ..errors import FormatError
from .protocol import limit_of_environment

RATIO_LIMIT_VARIABLE = "ENERGON_MAX_UNPACKING_RATIO"
"""Environment variable of the most bytes that a byte of a compressed file may become."""

_MAX_RATIO = 200  # texts reach 30, and gzip itself 1,032
FREE_BYTES = 32 << 20
"""Contents that any file may have: a white picture or an array of zeros has a higher ratio."""


def check_ratio(
    unpacked_bytes: int, packed_bytes: int, *, path: str, name: str = "", free_bytes: int = FREE_BYTES
) -> None:
    """Refuse contents that are very much larger than what they are unpacked of.

    Args:
        packed_bytes: The compressed bytes that this took.
        name: The contents in it; empty for a file that holds one.
        free_bytes: Smaller contents are not refused.

    Raises:
        FormatError: The contents are larger than this, and than 200 times the compressed bytes.
        ConfigError: ``ENERGON_MAX_UNPACKING_RATIO`` is not a number.
    """
    if unpacked_bytes <= free_bytes:
        return
    ratio = limit_of_environment(RATIO_LIMIT_VARIABLE, _MAX_RATIO, unit="bytes")
    if unpacked_bytes > ratio * max(1, packed_bytes):
        raise FormatError(
            f"{name or 'this file'} unpacks {packed_bytes:,} bytes to {unpacked_bytes:,} or more; expected at most"
            f" {ratio} times as many",
            shard=path,
            hint=f"unpack it yourself, or set the environment variable {RATIO_LIMIT_VARIABLE} if it is right",
        )


class UnpackedFile(io.RawIOBase):
    """The contents of a compressed file, which end with an error where they become too large.

    Args:
        free_bytes: Smaller contents are not refused.
    """

    def __init__(
        self, unpacking: BinaryIO | Any, packed: BinaryIO | Any, path: str, *, free_bytes: int = FREE_BYTES
    ) -> None:
        super().__init__()
        self._free_bytes = free_bytes
        self._unpacking = unpacking
        self._packed = packed
        self._path = path
        self._size_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes."""
        data = self._unpacking.read(len(buffer))
        buffer[: len(data)] = data
        self._size_bytes += len(data)
        check_ratio(self._size_bytes, self._packed.tell(), path=self._path, free_bytes=self._free_bytes)
        return len(data)
