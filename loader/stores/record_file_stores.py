"""The samples of token files and of JSONL files by number."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..dataset.records import SingleFile
from ..format.dataset_ref import DatasetRef
from ..format.records.record_file import record_number
from ..format.records.token_file import TOKENS
from ..renamed_parameters import renamed_parameters
from ..samples.source_info import SourceInfo
from .file_store import FileStore, MissingFileError, T_co


class _RecordFileStore(FileStore[T_co]):
    """One part of the samples of a file, by number: ``"3"``, ``"<file>/3"`` or ``"3.<part>"``."""

    part: ClassVar[str]
    samples: ClassVar[str]

    @renamed_parameters(jsonl_path="path")
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = DatasetRef.of(path).path
        self._opened: SingleFile | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_path": self._path, "_opened": None}

    def _file(self) -> SingleFile:
        if self._opened is None:
            self._opened = SingleFile(DatasetRef(self._path))
        return self._opened

    def __len__(self) -> int:
        return len(self._file())

    def _read(self, key: str | int) -> tuple[Any, SourceInfo]:
        opened = self._file()
        name = opened.file
        record = record_number(str(key).removesuffix(f".{self.part}"), name, len(opened))
        if record is None:
            raise MissingFileError(
                f"there is no {self.samples} {key!r}; keys are the numbers from 0 to {len(opened) - 1:,}",
                key=str(key),
                source=self._path,
            )
        source = SourceInfo(self._path, record, name, (f"{record}.{self.part}",))
        return opened.read_parts(record)[self.part], source

    def get_path(self) -> str:
        return self._path

    def identity(self) -> tuple[Any, ...]:
        return (self._path,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._path!r})"


class BinIdxFileStore(_RecordFileStore[npt.NDArray[Any]]):
    """The sequences of a pair ``x.bin`` and ``x.idx``, by number: ``"3"``, ``"x.bin/3"`` or ``"3.tokens"``.

    Args:
        path: Path of the ``.bin`` file, or without a suffix, as Megatron-LM writes it.

    >>> tokens, _ = BinIdxFileStore("tokens.bin")["1"]
    >>> tokens
    array([9], dtype=uint16)
    """

    part = TOKENS
    samples = "sequence"

    def __getitem__(self, key: str | int) -> tuple[npt.NDArray[Any], SourceInfo]:
        """Read a sequence.

        Raises:
            MissingFileError: There is no such sequence.
            FormatError: A file of the pair is damaged, or has changed.
            StorageError: A file cannot be read.
        """
        tokens, source = self._read(key)
        return np.asarray(tokens), source


class JsonlFileStore(_RecordFileStore[bytes]):
    """The lines of a JSONL file, by number: ``"3"``, ``"x.jsonl/3"`` or ``"3.json"``.

    Args:
        path: Path of the file.

    >>> line, _ = JsonlFileStore("numbers.jsonl")["2"]
    >>> line
    b'{"n": 2}'
    """

    part = "json"
    samples = "line"

    def __getitem__(self, key: str | int) -> tuple[bytes, SourceInfo]:
        """Read a line, without its line break.

        Raises:
            MissingFileError: There is no such line.
            FormatError: The index is missing or damaged, or the file has changed.
            StorageError: The file cannot be read.
        """
        return self._read(key)
