"""Samples in chunks of other libraries: mosaicml-streaming (MDS) and litdata, read by their own readers."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np

from ...errors import ConfigError, EnergonError, FormatError, SampleError, required_package
from ...parts.kinds import usual_extension
from ..rows.file_access import FileAccess
from ..rows.row import CellRef, FaultRef
from ..tables.part_values import npy_bytes
from .source import NumberedReader, NumberedSource

ChunkKind = Literal["mds", "litdata"]
_INDEX = "index.json"
_PICKLES = frozenset({"pkl", "pickle"})
"""Names of encodings in mosaicml-streaming and litdata."""
_FILES = ("audio", "image", "jpeg", "pdf", "tifffile", "video")
"""Encodings of litdata whose values are files, which keep their bytes; its own readers decode them."""
_LIBRARIES: Mapping[ChunkKind, tuple[str, str]] = {
    "mds": ("streaming", "mosaicml-streaming"),
    "litdata": ("litdata", "litdata"),
}


def chunk_kind(path: str) -> ChunkKind | None:
    """Return the library that wrote the chunks in a folder, by its index; None for another folder."""
    index = read_object(os.path.join(path, _INDEX))
    if "chunks" in index:
        return "litdata"
    return "mds" if "shards" in index else None


def read_object(path: str) -> dict[str, Any]:
    """Return the object in a document of another library; an empty one if it is missing or damaged."""
    if not os.path.isfile(path):  # opening a pipe would wait for its other end
        return {}
    try:
        with open(path, "rb") as file:
            document = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _check_index(path: str, access: FileAccess) -> None:
    index = read_object(os.path.join(path, _INDEX))
    # Check the names of all chunks.
    for name in _file_names(index):
        file = access.ref(os.path.join(path, name), (path,))
        if isinstance(file, FaultRef):
            raise ConfigError(file.reason, at=os.path.join(path, _INDEX), hint="allow it with --allow-outside")
    # Check the encodings of all columns.
    config = index.get("config")
    shards = index.get("shards")
    encodings = [config.get("data_format")] if isinstance(config, dict) else []
    encodings += [shard.get("column_encodings") for shard in shards if isinstance(shard, dict)] if shards else []
    names = {str(name).partition(":")[0] for some in encodings if isinstance(some, list) for name in some}
    pickled = sorted(names & _PICKLES)
    if pickled:
        raise ConfigError(
            f"values of these chunks are pickles ({pickled[0]}), which run code when they are read",
            at=os.path.join(path, _INDEX),
            hint="if you trust who wrote them, read them with their library and write them with loader.ShardWriter",
        )


def _file_names(index: Mapping[str, Any]) -> Iterator[str]:
    lists = (index[key] for key in ("shards", "chunks") if isinstance(index.get(key), list))
    for entry in (entry for entries in lists for entry in entries if isinstance(entry, dict)):
        for fields in (entry, *(value for value in entry.values() if isinstance(value, dict))):
            yield from (name for key in ("basename", "filename") if isinstance(name := fields.get(key), str))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSource(NumberedSource):
    """A folder of chunks; all samples have the parts of the first one.

    Attributes:
        kind: The library that wrote it, which must be installed.
        access: Decides which files the index may name.
    """

    path: str
    kind: ChunkKind
    access: FileAccess = field(default_factory=FileAccess, repr=False, compare=False)

    def open_cells(self) -> _ChunkReader:
        return _ChunkReader(self.path, self.kind, self.access)


class _ChunkReader(NumberedReader):
    """Reads samples by number, and keeps the parts of the last one."""

    def __init__(self, path: str, kind: ChunkKind, access: FileAccess) -> None:
        self._path = path
        _check_index(path, access)
        module, distribution = _LIBRARIES[kind]
        with required_package(
            f"these chunks are read by the library {distribution}, which is not installed",
            at=path,
            hint=f"pip install {distribution}",
        ):
            library = importlib.import_module(module)
        try:
            if kind == "mds":
                self._dataset = library.LocalDataset(local=path)
            else:
                as_bytes = importlib.import_module("litdata.streaming.serializers").BytesSerializer()
                self._dataset = library.StreamingDataset(
                    input_dir=path, shuffle=False, serializers=dict.fromkeys(_FILES, as_bytes)
                )
        except Exception as error:
            raise FormatError(f"{distribution} cannot read this folder: {error}", shard=path) from error
        self._last: tuple[int, dict[str, bytes]] | None = None

    def __len__(self) -> int:
        return len(self._dataset)

    def part_names(self) -> list[str]:
        return sorted(self.parts(0))

    def parts(self, sample_index: int) -> dict[str, bytes]:
        if self._last is None or self._last[0] != sample_index:
            try:
                # A sample is a dict, a list, or a single value.
                sample = self._dataset[sample_index]
            except EnergonError:
                raise
            except Exception as error:
                raise SampleError(f"cannot be read: {error}", source=f"{self._path}, sample {sample_index}") from error
            items = sample if isinstance(sample, list | tuple) else [sample]
            values = sample.items() if isinstance(sample, dict) else enumerate(items)
            parts = dict(part_of_value(str(name), value) for name, value in values)
            self._last = (sample_index, parts)
        return self._last[1]

    def read(self, cell: CellRef) -> bytes:
        parts = self.parts(cell.row)
        if cell.column not in parts:
            raise SampleError(
                f"this sample has no part {cell.column!r}, but {', '.join(parts)}",
                source=f"{self._path}, sample {cell.row}",
            )
        return parts[cell.column]

    def close(self) -> None:
        self._dataset = None


_UNSAFE = re.compile(r"[^0-9A-Za-z_-]+")


def part_of_value(name: str, value: Any) -> tuple[str, bytes]:
    """Return the part of a value: arrays as npy, texts as txt, labels as cls, pictures as files, others as JSON.

    Args:
        value: A value of Python, numpy, Pillow or torch; bytes get the extension of their contents. A picture without
            its file is written as PNG.

    >>> part_of_value("caption", "a cat"), part_of_value("label", 3)
    (('caption.txt', b'a cat'), ('label.cls', b'3'))
    """
    extension, data = _encoded(name, value)
    if name.lower().endswith(f".{extension}"):
        name = name[: -len(extension) - 1]
    stem = _UNSAFE.sub("_", name).strip("_") or "value"
    return (extension if stem.lower() == extension else f"{stem}.{extension}"), data


def _encoded(name: str, value: Any) -> tuple[str, bytes]:
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return usual_extension(data) or "bin", data
    if isinstance(value, str):
        return "txt", value.encode("utf-8", "surrogatepass")
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return "cls", str(int(value)).encode()
    # Recognise objects by their methods: their libraries may not be installed.
    if hasattr(value, "save") and hasattr(value, "mode"):  # a picture of Pillow
        file = getattr(value, "fp", None)  # until its pixels are decoded
        if file is not None:
            file.seek(0)
            return _encoded(name, file.read())
        encoded = io.BytesIO()
        value.save(encoded, "PNG")
        return "png", encoded.getvalue()
    if hasattr(value, "detach"):  # a tensor of torch
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return "npy", npy_bytes(value)
    try:
        return "json", msgspec.json.encode(value, enc_hook=_plain)
    except (TypeError, ValueError) as error:
        raise SampleError(f"a value of type {type(value).__name__} cannot be written: {error}", part=name) from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
