"""Write samples as rows of a Parquet file, or of a Hugging Face dataset."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any

from ...errors import ConfigError
from .writers import CellKind, ExportedSample, SampleWriter, as_cell, file_name

_GROUP_BYTES = 32 << 20  # of a row group; readers hold a group at a time
_GROUP_ROWS = 10_000
_UNSPLIT = "unsplit"


class _Batches:
    """Rows that are written in groups."""

    def __init__(self, writer: Any, schema: Any) -> None:
        self._writer = writer
        self._schema = schema
        self._rows: list[dict[str, Any]] = []
        self._size_bytes = 0

    def add(self, row: dict[str, Any], size_bytes: int) -> None:
        self._rows.append(row)
        self._size_bytes += size_bytes
        if self._size_bytes >= _GROUP_BYTES or len(self._rows) >= _GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            import pyarrow as pa

            self._writer.write_batch(pa.RecordBatch.from_pylist(self._rows, schema=self._schema))
        self._rows = []
        self._size_bytes = 0


class ParquetWriter(SampleWriter):
    """Writes each sample as a row: its key, its split part, and a column for each part.

    Args:
        kinds: Part name → kind of its column.
    """

    is_file = True

    def __init__(self, path: str, kinds: Mapping[str, CellKind]) -> None:
        pyarrow = _import("pyarrow", extra="tables")
        from pyarrow import parquet

        types = {"text": pyarrow.string(), "label": pyarrow.int64()}
        fields = [("__key__", pyarrow.string()), ("__split__", pyarrow.string())]
        fields += [(name, types.get(kind, pyarrow.binary())) for name, kind in kinds.items()]
        schema = pyarrow.schema(fields)
        super().__init__(path)
        self._kinds = kinds
        self._rows = _Batches(self._open.enter_context(parquet.ParquetWriter(self.file, schema)), schema)

    def _write(self, sample: ExportedSample) -> None:
        row = {"__key__": _text(sample.full_key), "__split__": sample.split or None}
        self._rows.add(row | _cells(sample, self._kinds), _size(sample))

    def _finish(self) -> None:
        self._rows.flush()


class HuggingFaceWriter(SampleWriter):
    """Writes a dataset that ``datasets.load_from_disk`` opens; with splits, a dictionary of datasets.

    Pictures and sounds have the library's types, so that they are decoded when they are read.

    Args:
        path: A new or empty folder.
        kinds: Part name → kind of its column.
    """

    def __init__(self, path: str, kinds: Mapping[str, CellKind]) -> None:
        datasets = _import("datasets", extra="hf")
        super().__init__(path)
        audio = datasets.Audio(decode=False) if "audio" in kinds.values() else None
        types: dict[CellKind, Any] = {
            "audio": audio,
            "bytes": datasets.Value("binary"),
            "image": datasets.Image(),
            "label": datasets.Value("int64"),
            "text": datasets.Value("string"),
        }
        columns = {"__key__": datasets.Value("string")} | {name: types[kind] for name, kind in kinds.items()}
        self._features = datasets.Features(columns)
        self._kinds = kinds
        self._rows_folder = os.path.join(self.folder, ".rows")  # the library does not write next to what it reads
        os.mkdir(self._rows_folder)
        self._parts: dict[str, tuple[str, _Batches]] = {}

    def _write(self, sample: ExportedSample) -> None:
        cells = _cells(sample, self._kinds)
        for name, value in cells.items():
            if self._kinds[name] in ("image", "audio"):
                cells[name] = {"bytes": value, "path": f"{_text(sample.key)}.{name}"}
        self._rows_of(sample.split).add({"__key__": _text(sample.full_key), **cells}, _size(sample))

    def _rows_of(self, split: str) -> _Batches:
        if split not in self._parts:
            import pyarrow as pa

            path = os.path.join(self._rows_folder, f"{len(self._parts)}.arrow")
            schema = self._features.arrow_schema
            writer = self._open.enter_context(pa.ipc.new_stream(path, schema))
            self._parts[split] = path, _Batches(writer, schema)
        return self._parts[split][1]

    def _finish(self) -> None:
        datasets = _import("datasets", extra="hf")
        for _, rows in self._parts.values():
            rows.flush()
        self._open.close()
        # Splits become folders, and names in a split file may be those of folders above.
        found = {
            file_name(split or _UNSPLIT): datasets.Dataset.from_file(path) for split, (path, _) in self._parts.items()
        }
        quiet = datasets.is_progress_bar_enabled()
        datasets.disable_progress_bars()
        try:
            target: Any = found[_UNSPLIT] if [*found] == [_UNSPLIT] else datasets.DatasetDict(found)
            target.save_to_disk(self.folder)
        finally:
            if quiet:
                datasets.enable_progress_bars()
        shutil.rmtree(self._rows_folder)


def _cells(sample: ExportedSample, kinds: Mapping[str, CellKind]) -> dict[str, Any]:
    return {
        name: as_cell(name, data, kinds[name], key=sample.full_key)
        for name, data in sample.parts.items()
        if name in kinds
    }


def _size(sample: ExportedSample) -> int:
    return sum(map(len, sample.parts.values()))


def _text(key: str) -> str:
    """Return a key as text that UTF-8 encodes."""
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _import(name: str, *, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"this format needs the package {name}", hint=f"pip install 'energon-toolkit[{extra}]'"
        ) from error
