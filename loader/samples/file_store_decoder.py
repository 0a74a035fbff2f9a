"""What decodes the files of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

__all__ = ["FileStoreDecoder"]


class FileStoreDecoder(ABC):
    """Makes values of files. Derive from it for a decoder of your own; worker processes get a pickled copy."""

    __slots__ = ()

    @abstractmethod
    def decode(self, fname: str, data: bytes) -> Any:
        """Decode one file.

        Args:
            fname: Its key in the store, ``"shard_0.tar/0001.jpg"`` or ``"photos/1.jpg"``.
            data: Its bytes.
        """
