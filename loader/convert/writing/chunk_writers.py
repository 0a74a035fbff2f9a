"""Write samples as chunks that mosaicml-streaming (MDS) and litdata read as theirs; neither needs to be installed."""

from __future__ import annotations

import io
import json
import os
import zlib
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from ...errors import SampleError
from ...format.tar.names import marked
from ...parts.kinds import is_compressed, part_extension
from .sample_writers import CellKind, ExportedSample, SampleWriter, as_cell

_CHUNK_BYTES = 64 << 20  # the size that both libraries advise: readers fetch whole chunks
_MOST_BYTES = (1 << 32) - _CHUNK_BYTES  # offsets are of 32 bits

ColumnKind = Literal["array", "bytes", "jpeg", "json", "label", "png", "text"]
_KIND_OF_EXTENSION: Mapping[str, ColumnKind] = {
    "jpeg": "jpeg",
    "jpg": "jpeg",
    "json": "json",
    "npy": "array",
    "png": "png",
}
_LABEL_BYTES = 8


def _column_kind(name: str, kind: CellKind, *, raw: bool) -> ColumnKind:
    if raw or is_compressed(name):
        return "bytes"
    exact = _KIND_OF_EXTENSION.get(part_extension(name))
    return exact or (kind if kind in ("label", "text") else "bytes")


class ChunkWriter(SampleWriter):
    """Writes each sample as a record of a chunk: its key, and a value for each part.

    Texts, labels, JSON, JPEG, PNG and arrays (``npy``) have the types of the library, other parts are bytes.

    Args:
        path: A new or empty folder.
        kinds: Part name → kind of its cells in tables.
        raw: All parts are bytes.
    """

    encodings: ClassVar[Mapping[str, str]]  # the names of kinds that the library calls otherwise
    file_name: ClassVar[str]
    _config = b""

    def __init__(self, path: str, kinds: Mapping[str, CellKind], *, raw: bool = False) -> None:
        super().__init__(path)
        self._columns: dict[str, ColumnKind] = {"__key__": "text"}
        self._columns |= {name: _column_kind(name, kinds[name], raw=raw) for name in sorted(kinds)}
        self._encodings = [self.encodings.get(kind, kind) for kind in self._columns.values()]
        self._records: list[bytes] = []
        self._record_bytes = 0
        self._chunks: list[dict[str, Any]] = []

    def _write(self, sample: ExportedSample) -> None:
        values = [marked(sample.full_key).encode()]
        for name, kind in [*self._columns.items()][1:]:
            try:
                values.append(self._value(name, kind, sample))
            except (ArithmeticError, EOFError, KeyError, MemoryError, RecursionError, ValueError) as error:
                fault = f"is no value of the type {kind}: {error}" if name in sample.parts else "is missing"
                raise SampleError(
                    f"part {name!r} {fault}",
                    key=sample.full_key,
                    part=name,
                    source=sample.full_key,
                    hint="leave the part out (--drop-parts) or the sample (--where), or store all as bytes: --raw",
                ) from error
        record = self._sizes(values) + b"".join(values)
        if len(record) > _MOST_BYTES:
            raise SampleError(f"expected at most {_MOST_BYTES:,} bytes, found {len(record):,}", key=sample.full_key)
        if self._records and self._record_bytes + len(record) > _CHUNK_BYTES:
            self._flush()
        self._records.append(record)
        self._record_bytes += len(record)

    def _value(self, name: str, kind: ColumnKind, sample: ExportedSample) -> bytes:
        data = sample.parts[name]
        match kind:
            case "label":
                return int(as_cell(name, data, "label", sample=sample)).to_bytes(_LABEL_BYTES, "little", signed=True)
            case "array":
                array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
                return self._array(np.asarray(array, array.dtype.newbyteorder("<"), order="C"))
            case "text" | "json":
                text = str(as_cell(name, data, "text", sample=sample))
                if kind == "json":
                    json.loads(text)
                return text.encode()
        return data

    @abstractmethod
    def _array(self, array: np.ndarray[Any, Any]) -> bytes: ...

    def _sizes(self, values: list[bytes]) -> bytes:
        return np.array([*map(len, values)], "<u4").tobytes()

    def _flush(self) -> None:
        start = 4 * (len(self._records) + 2) + len(self._config)
        offsets = np.cumsum([start, *map(len, self._records)]).astype("<u4").tobytes()
        data = b"".join((len(self._records).to_bytes(4, "little"), offsets, self._config, *self._records))
        name = self.file_name.format(len(self._chunks))
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(data)
        self._chunks.append(self._entry(name, data))
        self._records, self._record_bytes = [], 0

    @abstractmethod
    def _entry(self, name: str, data: bytes) -> dict[str, Any]:
        """Return the entry of a chunk in the index."""

    def _finish(self) -> None:
        if self._records:
            self._flush()
        with open(os.path.join(self.folder, "index.json"), "w", encoding="utf-8") as file:
            json.dump(self._index(), file, sort_keys=True)

    @abstractmethod
    def _index(self) -> dict[str, Any]: ...


class MdsWriter(ChunkWriter):
    """Writes shards of mosaicml-streaming."""

    encodings: ClassVar[Mapping[str, str]] = {"array": "ndarray", "label": "int", "text": "str"}
    file_name = "shard.{:05}.mds"

    def __init__(self, path: str, kinds: Mapping[str, CellKind], *, raw: bool = False) -> None:
        super().__init__(path, kinds, raw=raw)
        self._settings = {
            "column_encodings": self._encodings,
            "column_names": [*self._columns],
            "column_sizes": [_LABEL_BYTES if kind == "label" else None for kind in self._columns.values()],
            "compression": None,
            "format": "mds",
            "hashes": [],
            "size_limit": _CHUNK_BYTES,
            "version": 2,
        }
        self._config = json.dumps(self._settings, sort_keys=True).encode()

    def _sizes(self, values: list[bytes]) -> bytes:
        # Labels have a fixed size.
        pairs = zip(values, self._columns.values(), strict=True)
        return super()._sizes([value for value, kind in pairs if kind != "label"])

    def _array(self, array: np.ndarray[Any, Any]) -> bytes:
        if not array.ndim or not array.size or array.itemsize > 8:
            raise ValueError("MDS holds no array without axes or elements, and no number of more than 64 bits")
        # A type is its bits, and 1 for signed integers, 2 for floats. An axis is one of 32 bits (2).
        head = bytes([8 * array.itemsize + "uif".index(array.dtype.kind), array.ndim << 2 | 2])
        return head + np.array(array.shape, "<u4").tobytes() + array.tobytes()

    def _entry(self, name: str, data: bytes) -> dict[str, Any]:
        file = {"basename": name, "bytes": len(data), "hashes": {}}
        return {**self._settings, "raw_data": file, "samples": len(self._records), "zip_data": None}

    def _index(self) -> dict[str, Any]:
        return {"shards": self._chunks, "version": 2}


class LitdataWriter(ChunkWriter):
    """Writes chunks of litdata; JSON stays text, which its tree of values would flatten."""

    encodings: ClassVar[Mapping[str, str]] = {
        "array": "numpy",
        "json": "str",
        "label": "int",
        "png": "image:png",
        "text": "str",
    }
    array_types = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 bool"
    file_name = "chunk-0-{}.bin"
    _checksum = 0

    def _array(self, array: np.ndarray[Any, Any]) -> bytes:
        head = np.array([self.array_types.split().index(array.dtype.name), array.ndim, *array.shape], "<u4")
        return head.tobytes() + array.tobytes()

    def _entry(self, name: str, data: bytes) -> dict[str, Any]:
        self._checksum = zlib.crc32(data, self._checksum)
        return {"chunk_bytes": len(data), "chunk_size": len(self._records), "dim": None, "filename": name}

    def _index(self) -> dict[str, Any]:
        leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
        names = json.dumps([*self._columns])
        spec = [1, {"type": "builtins.dict", "context": names, "children_spec": [leaf] * len(self._columns)}]
        config = {
            "chunk_bytes": _CHUNK_BYTES,
            "chunk_size": None,
            "compression": None,
            "data_format": self._encodings,
            "data_spec": json.dumps(spec),
            "encryption": None,
            "item_loader": "PyTreeLoader",
        }
        # The time of writing names its caches of remote chunks; a checksum does, too, and keeps the output the same.
        return {"chunks": self._chunks, "config": config, "updated_at": str(self._checksum)}
