"""A JSONL file as a file of numbered samples: each line is a sample of one part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...arrays import IntArray
from ...errors import FormatError
from ...storage import ReadableFile, Storage
from ..jsonl.index import LINE, read_line
from ..jsonl.lines import BYTE_ORDER_MARK
from ..jsonl.unprepared import index_of_lines
from .record_file import RecordFile

_ENDS = 1024  # offsets at each end of the index, which distinguish one file from another


class LineFile(RecordFile):
    """The lines of a JSONL file."""

    decodes = True

    def __init__(self, storage: Storage, name: str) -> None:
        index = index_of_lines(storage, name)
        super().__init__(storage, name, index.info, size_bytes=int(index.offsets[-1]), part_names=(LINE,))
        self.offsets = index.offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def spans(self, numbers: IntArray) -> tuple[IntArray, IntArray]:
        offsets = self.offsets
        start, stop = offsets[numbers].astype(np.int64), offsets[numbers + 1].astype(np.int64)
        if not ((start >= 0) & (start < stop) & (stop <= self.size_bytes)).all():
            raise self._fault("the index of this file is damaged: its offsets do not ascend")
        return start, stop - start

    def _changed(self, size_bytes: int) -> FormatError:
        return self._fault(
            f"the file has changed since it was indexed: it had {self.size_bytes} bytes, now {size_bytes}"
        )

    def _fault(self, message: str) -> FormatError:
        return FormatError(message, shard=self.path, hint=f"run: energon prepare {self.path}")

    def read(self, file: ReadableFile, sample: int, wanted: object = None) -> dict[str, Any]:  # noqa: ARG002 - one part
        return {LINE: read_line(file, self.offsets, sample, path=self.path)}

    def values(self, parts: Mapping[str, Any], sample: int) -> dict[str, Any]:
        """Remove the line break, blanks around the object, and a byte order mark."""
        line = parts[LINE].strip()
        return {LINE: line if sample else line.removeprefix(BYTE_ORDER_MARK)}

    def fingerprint(self) -> bytes:
        return bytes(np.concatenate([self.offsets[:_ENDS], self.offsets[-_ENDS:]]).tobytes())
