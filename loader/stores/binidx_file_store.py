"""The sequences of token files by number."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from ..format.binidx.token_file import TOKENS, TokenFile
from ..format.documents.providers import data_path
from ..format.records.record_file import RecordReader, record_number
from ..samples.source_info import SourceInfo
from ..storage import open_parent
from .file_store import FileStore, MissingFileError

__all__ = ["BinIdxFileStore"]


class BinIdxFileStore(FileStore[npt.NDArray[Any]]):
    """The sequences of a pair ``x.bin`` and ``x.idx``, by number: ``"3"``, ``"x.bin/3"`` or ``"3.tokens"``.

    Args:
        path: Path of the ``.bin`` file, or without a suffix, as Megatron-LM writes it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = data_path(os.fspath(path))
        self._opened: RecordReader | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_path": self._path, "_opened": None}

    def _reader(self) -> RecordReader:
        reader = self._opened
        if reader is None:
            reader = self._opened = RecordReader(TokenFile(*open_parent(self._path)))
        return reader

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self._reader())

    def __getitem__(self, key: str | int) -> tuple[npt.NDArray[Any], SourceInfo]:
        """Read a sequence.

        Raises:
            MissingFileError: There is no such sequence.
            FormatError: A file of the pair is damaged, or has changed.
            StorageError: A file cannot be read.
        """
        reader = self._reader()
        name = reader.file.name
        number = record_number(str(key).removesuffix(f".{TOKENS}"), name, len(reader))
        if number is None:
            raise MissingFileError(
                f"there is no sequence {key!r}; keys are the numbers from 0 to {len(reader) - 1:,}",
                key=str(key),
                source=self._path,
            )
        tokens: npt.NDArray[Any] = np.asarray(reader.read_parts(number)[TOKENS])
        return tokens, SourceInfo(self._path, number, name, (f"{number}.{TOKENS}",))

    def get_path(self) -> str:
        return self._path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BinIdxFileStore) and other._path == self._path

    def __hash__(self) -> int:
        return hash((BinIdxFileStore, self._path))

    def __repr__(self) -> str:
        return f"BinIdxFileStore({self._path!r})"
