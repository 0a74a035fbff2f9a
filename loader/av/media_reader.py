"""The base class of readers that decode an audio or video stream forwards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, BinaryIO

from ..format.media.av_container import open_container

if TYPE_CHECKING:
    from av.container import InputContainer


class MediaReader(ABC):
    """A reader of one stream of an open file. It skips ahead by seeking; if the container cannot seek, by decoding.

    Args:
        container: An open file that was not read from.
        file: The bytes of the container; opened again if a seek fails.
        threads: Number of decoding threads.

    Raises:
        ValueError: The file has no such stream.
    """

    def __init__(self, container: InputContainer, file: BinaryIO, *, threads: int = 1) -> None:
        self._file = file
        self._threads = threads
        self._reopened: InputContainer | None = None
        self._can_seek = True
        self._attach(container)

    def close(self) -> None:
        """Close the container if this reader opened it again."""
        if self._reopened is not None:
            self._reopened.close()

    def advance_to(self, place: int) -> None:
        """Move to a point from which ``place`` decodes correctly, if that is faster than decoding up to it.

        Args:
            place: Position in the units of the reader, no less than in earlier calls.
        """
        if not self._is_worth_a_seek(place):
            return
        if self._can_seek and not self._seek(place):
            self._can_seek = False
            self._rewind()

    @abstractmethod
    def _attach(self, container: InputContainer) -> None:
        """Start at a container's first sample or frame."""

    @abstractmethod
    def _is_worth_a_seek(self, place: int) -> bool: ...

    @abstractmethod
    def _seek(self, place: int) -> bool:
        """Try to continue from a point before a place; return False if the container cannot."""

    def _rewind(self) -> None:
        """Open the file again, because some formats cannot even seek to their start."""
        self.close()
        self._file.seek(0)
        self._reopened = open_container(self._file)
        self._attach(self._reopened)
