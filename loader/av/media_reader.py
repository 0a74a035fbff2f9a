"""What reads an audio or video stream forwards: by seeking, or where a container cannot seek, from its start again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, BinaryIO

from ..format.av_container import open_container

if TYPE_CHECKING:
    from av.container import InputContainer

__all__ = ["MediaReader"]


class MediaReader(ABC):
    """A reader of one stream of an open file.

    Args:
        container: An open file that nothing was read from.
        file: What it was opened from; it is opened again where the container cannot seek.
        threads: How many threads decode.

    Raises:
        ValueError: There is no such stream.
    """

    def __init__(self, container: InputContainer, file: BinaryIO, *, threads: int = 1) -> None:
        self._file = file
        self._threads = threads
        self._reopened: InputContainer | None = None
        self._can_seek = True
        self._use(container)

    def close(self) -> None:
        """Close what was opened again."""
        if self._reopened is not None:
            self._reopened.close()

    def go_to(self, place: int) -> None:
        """Move to a place from which what is asked for is decoded right, unless decoding on is no longer way.

        Args:
            place: In the units of the reader, no less than in the calls before.
        """
        if not self._is_worth_a_seek(place):
            return
        if self._can_seek and not self._seek(place):
            self._can_seek = False
            self._rewind()

    @abstractmethod
    def _use(self, container: InputContainer) -> None:
        """Begin with a container's first sample or frame."""

    @abstractmethod
    def _is_worth_a_seek(self, place: int) -> bool: ...

    @abstractmethod
    def _seek(self, place: int) -> bool:
        """Try to go on from before a place; False where the container cannot."""

    def _rewind(self) -> None:
        """Open the file again: not all formats can seek to their start."""
        self.close()
        self._file.seek(0)
        self._reopened = open_container(self._file)
        self._use(self._reopened)
