"""Write samples as files, lines of JSON, tar shards without metadata, or rows of tables."""

from __future__ import annotations

import base64
import importlib
import json
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, unquote

from ...errors import ConfigError, SampleError, required_package
from ...format.tar.names import marked
from ...parts.kinds import is_compressed, kind_of_name, part_extension
from ...parts.large_parts import CHECKED_JSON_BYTES
from .new_output import NewOutput
from .shard_file import ShardFile, sample_bytes


class ExportedSample(NamedTuple):
    """A sample to write.

    Attributes:
        split: Its split part; ``""`` for none.
        label: The class that it belongs to, where the form of the copy needs it.
    """

    shard: str
    key: str
    split: str
    parts: Mapping[str, bytes]
    label: str = ""

    @property
    def full_key(self) -> str:
        return f"{self.shard}/{self.key}"


class SampleWriter(NewOutput, ABC):
    """Writes samples in one format to a new file or folder, which appears when its block ends without an error."""

    def write(self, sample: ExportedSample) -> None:
        with self._writing():
            self._write(sample)

    @abstractmethod
    def _write(self, sample: ExportedSample) -> None:
        """Write a sample; an ``OSError`` becomes one about the output."""


class FilesWriter(SampleWriter):
    """Writes each part as a file ``<key>.<part>``; a slash in a key as ``%2F``.

    Args:
        path: A new or empty folder.
        by_label: Write a folder for each label of samples.
    """

    def __init__(self, path: str, *, by_shard: bool = False, by_label: bool = False) -> None:
        super().__init__(path)
        self._by_shard = by_shard
        self._by_label = by_label

    def _write(self, sample: ExportedSample) -> None:
        # A folder for each shard keeps samples of one key apart.
        folder = os.path.join(self.folder, file_name(sample.label)) if self._by_label else self.folder
        folder = os.path.join(folder, file_name(sample.shard)) if self._by_shard else folder
        os.makedirs(folder, exist_ok=True)
        for part, data in sample.parts.items():
            try:
                with open(os.path.join(folder, file_name(f"{sample.key}.{part}")), "xb") as file:
                    file.write(data)
            except FileExistsError as error:
                raise ConfigError(
                    f"two samples have the key {sample.key!r}",
                    at=sample.full_key,
                    hint="write a folder for each shard (--by-shard), or tar shards",
                ) from error


class TarWriter(SampleWriter):
    """Writes tar shards that ``energon prepare`` takes, ``shard_000000.tar`` and so on.

    A sample whose key a shard has begins another shard.

    Args:
        path: A new or empty folder.
        shard_bytes: A shard ends before the sample that would exceed this size; a larger sample has its own.
    """

    def __init__(self, path: str, *, shard_bytes: int = 1 << 30) -> None:
        super().__init__(path)
        self._shard_bytes = shard_bytes
        self._shard: ShardFile | None = None
        self._shards = 0
        self._keys: set[str] = set()

    def _write(self, sample: ExportedSample) -> None:
        shard = self._shard
        # Begin another shard if this one is full, or has the key.
        if (
            shard is None
            or shard.size_bytes + sample_bytes(sample.key, sample.parts) > self._shard_bytes
            or sample.key in self._keys
        ):
            self._finish()
            file = open(os.path.join(self.folder, f"shard_{self._shards:06}.tar"), "wb")  # noqa: SIM115
            shard = self._shard = ShardFile(self._open.enter_context(file))
            self._shards += 1
            self._keys.clear()
        shard.write(sample.key, sample.parts)
        self._keys.add(sample.key)

    def _finish(self) -> None:
        if self._shard is not None:
            self._shard.finish()
            self._open.close()


class JsonlWriter(SampleWriter):
    """Writes each sample as a line of JSON, with its parts by name.

    JSON parts are written as their values, texts as texts, and other parts as ``{"base64": …}``.
    """

    is_file = True

    def _write(self, sample: ExportedSample) -> None:
        document: dict[str, Any] = {"__key__": sample.full_key}
        document |= {name: as_json(name, data) for name, data in sample.parts.items()}
        self.file.write(json.dumps(document, ensure_ascii=True).encode("ascii") + b"\n")


# Values of parts as bytes, as JSON, and as cells of a table.


CellKind = Literal["audio", "bytes", "image", "label", "text"]

_TEXTS = ("txt", "text", "caption", "cls", "cls2", "index", "md", "html", "xml", "srt", "vtt", "csv", "yaml", "yml")
"""Extensions of parts that are written as texts, if they are UTF-8."""

_FEATURES: Mapping[CellKind, Mapping[str, Any]] = {
    "audio": {"_type": "Audio", "decode": False},
    "bytes": {"_type": "Value", "dtype": "binary"},
    "image": {"_type": "Image"},
    "label": {"_type": "Value", "dtype": "int64"},
    "text": {"_type": "Value", "dtype": "string"},
}
"""Types of columns as the package ``datasets`` writes them."""

_CELL_TEXTS = frozenset({*_TEXTS, "json", "jsn", "jsonl", "transcript"})


def as_json(name: str, data: bytes) -> Any:
    """Return JSON as its value, texts as texts, and other parts as ``{"base64": …}``.

    >>> as_json("json", b"[1]"), as_json("txt", b"a cat"), as_json("jpg", b"abc")
    ([1], 'a cat', {'base64': 'YWJj'})
    """
    ending = name.rpartition(".")[2].lower()
    with suppress(ValueError, RecursionError):  # not what its name says
        # JSON becomes a value and text a text, as far as they are what their names say.
        if ending in ("json", "jsonl") or not name:
            if len(data) > CHECKED_JSON_BYTES:
                raise SampleError(
                    f"JSON of {len(data):,} bytes is not parsed; expected at most {CHECKED_JSON_BYTES:,}",
                    part=name,
                    hint="export to tar files, or leave this part out: --drop-parts",
                )
            return json.loads(data)
        if ending in _TEXTS:
            return data.decode("utf-8-sig")
    return {"base64": base64.b64encode(data).decode("ascii")}


def cell_kinds(part_names: Iterable[str], *, raw: bool = False) -> dict[str, CellKind]:
    """Return the kind of the column of each part of a table.

    Raises:
        ConfigError: The name of a part cannot be the name of a column, since it is not UTF-8.

    >>> cell_kinds(["jpg", "json", "cls", "json.gz"])
    {'jpg': 'image', 'json': 'text', 'cls': 'label', 'json.gz': 'bytes'}
    """
    names = [*part_names]
    if other := next((name for name in names if marked(name) != name), None):
        raise ConfigError(
            f"the name of the part {other!r} is not UTF-8, which names of columns are",
            hint="leave the part out (--drop-parts)",
        )
    return {name: "bytes" if raw else _cell_kind(name) for name in names}


def _cell_kind(name: str) -> CellKind:
    kind = kind_of_name(name)
    if is_compressed(name):
        return "bytes"
    match kind:
        case "label" | "image" | "audio":
            return kind
    return "text" if kind == "text" or part_extension(name) in _CELL_TEXTS else "bytes"


def features_of(kinds: Mapping[str, CellKind], class_names: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return the types of columns as ``datasets`` writes them; labels have the names of their classes, if any."""
    classes = {"_type": "ClassLabel", "names": [*class_names]}
    return {name: classes if class_names and kind == "label" else dict(_FEATURES[kind]) for name, kind in kinds.items()}


def as_cell(name: str, data: bytes, kind: CellKind, *, sample: ExportedSample) -> Any:
    """Return the value of a part in a table; media as ``datasets`` stores them."""
    if kind in ("image", "audio"):
        return {"bytes": data, "path": f"{marked(sample.key)}.{name}"}
    if kind == "bytes":
        return data
    try:
        text = data.decode("utf-8-sig")
        return text if kind == "text" else int(text)
    except ValueError as error:
        expected = "a text in UTF-8" if kind == "text" else "an integer"
        raise SampleError(
            f"expected {expected}, found {data[:40]!r}",
            key=sample.full_key,
            part=name,
            source=sample.full_key,
            hint="export all parts as bytes: --raw; or leave it out: --drop-parts",
        ) from error


# Control characters, ends of lines, and marks that turn the direction of text, which a terminal obeys.
_UNSAFE = re.compile("[%/\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def file_name(text: str) -> str:
    r"""Return the name of a file or folder for a key, a part or a shard.

    ``/`` becomes ``%2F``, as do control characters and the names that a file cannot have.

    >>> file_name("0001"), file_name("a/1"), file_name("50%"), file_name(".."), file_name("a\x1b[2J")
    ('0001', 'a%2F1', '50%25', '%2E.', 'a%1B[2J')
    """
    escaped = _UNSAFE.sub(lambda match: quote(match[0], safe=""), text)
    if escaped in ("", ".", ".."):
        return "%2E" + escaped[1:] if escaped else "%"
    return escaped


def key_of(name: str) -> str:
    """Return the text of a name.

    >>> [key_of(file_name(text)) for text in ("0001", "a/1", "50%", "..", "%2F", "")]
    ['0001', 'a/1', '50%', '..', '%2F', '']
    """
    if name == "%":
        return ""
    return unquote(name)


def split_file_name(name: str) -> tuple[str, str]:
    """Return the key and the part of a file ``<key>.<part>``; the part is empty if there is none.

    As in shards, the key ends at the first dot after its last slash.

    >>> split_file_name("a%2F1.seg.png"), split_file_name("0001")
    (('a/1', 'seg.png'), ('0001', ''))
    """
    folder, slash, last = key_of(name).rpartition("/")
    key, _, part = last.partition(".")
    return f"{folder}{slash}{key}", part


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
        class_names: Names of the classes whose numbers are in columns of labels; empty for none.
    """

    is_file = True

    def __init__(self, path: str, kinds: Mapping[str, CellKind], class_names: Sequence[str] = ()) -> None:
        pyarrow = _import("pyarrow", extra="tables")
        from pyarrow import parquet

        # Make a column for each part.
        medium = pyarrow.struct({"bytes": pyarrow.binary(), "path": pyarrow.string()})
        types = {"text": pyarrow.string(), "label": pyarrow.int64(), "image": medium, "audio": medium}
        columns: dict[str, CellKind] = {"__key__": "text", "__split__": "text", **kinds}
        fields = [(name, types.get(kind, pyarrow.binary())) for name, kind in columns.items()]
        # With these features, datasets reads pictures as pictures.
        features = features_of(columns, class_names)
        schema = pyarrow.schema(fields, {"huggingface": json.dumps({"info": {"features": features}})})
        super().__init__(path)
        self._kinds = kinds
        self._rows = _Batches(self._open.enter_context(parquet.ParquetWriter(self.file, schema)), schema)

    def _write(self, sample: ExportedSample) -> None:
        row = {"__key__": marked(sample.full_key), "__split__": sample.split or None}
        self._rows.add(row | _cells(sample, self._kinds), _size(sample))

    def _finish(self) -> None:
        self._rows.flush()


class HuggingFaceWriter(SampleWriter):
    """Writes a dataset that ``datasets.load_from_disk`` opens; with splits, a dictionary of datasets.

    Pictures and sounds have the library's types, so that they are decoded when they are read.

    Args:
        path: A new or empty folder.
        kinds: Part name → kind of its column.
        class_names: As for a Parquet file.
    """

    def __init__(self, path: str, kinds: Mapping[str, CellKind], class_names: Sequence[str] = ()) -> None:
        datasets = _import("datasets", extra="hf")
        super().__init__(path)
        columns: dict[str, CellKind] = {"__key__": "text", **kinds}
        self._features = datasets.Features.from_dict(features_of(columns, class_names))
        self._kinds = kinds
        self._rows_folder = os.path.join(self.folder, ".rows")  # the library does not write next to what it reads
        os.mkdir(self._rows_folder)
        self._parts: dict[str, tuple[str, _Batches]] = {}

    def _write(self, sample: ExportedSample) -> None:
        cells = _cells(sample, self._kinds)
        self._rows_of(sample.split).add({"__key__": marked(sample.full_key), **cells}, _size(sample))

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
        # Write the rows that are left, and close their files.
        for _, rows in self._parts.values():
            rows.flush()
        self._open.close()
        # Splits become folders, and names in a split file may be those of folders above.
        unsplit = _UNSPLIT
        while unsplit in self._parts:
            unsplit += "_"
        splits = {
            file_name(split or unsplit): datasets.Dataset.from_file(path) for split, (path, _) in self._parts.items()
        }
        # The library shows progress bars of its own.
        quiet = datasets.is_progress_bar_enabled()
        datasets.disable_progress_bars()
        try:
            target: Any = splits[_UNSPLIT] if [*self._parts] == [""] else datasets.DatasetDict(splits)
            target.save_to_disk(self.folder)
        finally:
            if quiet:
                datasets.enable_progress_bars()
        shutil.rmtree(self._rows_folder)


def _cells(sample: ExportedSample, kinds: Mapping[str, CellKind]) -> dict[str, Any]:
    return {
        name: as_cell(name, data, kinds[name], sample=sample) for name, data in sample.parts.items() if name in kinds
    }


def _size(sample: ExportedSample) -> int:
    return sum(map(len, sample.parts.values()))


def _import(name: str, *, extra: str) -> Any:
    with required_package(f"this format needs the package {name}", hint=f"pip install 'energon-toolkit[{extra}]'"):
        return importlib.import_module(name)
