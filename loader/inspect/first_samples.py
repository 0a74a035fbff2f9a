"""Read the first samples of a folder of shards, and check a field map against them, before all shards are scanned."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from ..accounting.kinds import HEADER_BYTES, Kind, is_compressed, kind_of_bytes, kind_of_name, part_extension
from ..errors import EnergonError
from ..format.documents.dataset_config import DatasetConfig
from ..format.documents.field_map import FieldMap, parse_field_map
from ..format.documents.messages import nearest_names
from ..format.documents.providers import record_format
from ..format.index.object_commit import read_committed_documents
from ..format.jsonl.line_file import LINE
from ..format.jsonl.lines import BYTE_ORDER_MARK
from ..format.nv_meta import FOLDER, INFO_JSON, INFO_YAML, open_dataset_storage
from ..format.prepare.dataset_yaml import DatasetYaml
from ..format.prepare.proposals import propose_field_map
from ..format.prepare.shards import find_shards
from ..format.records.record_file import RecordReader
from ..format.tar.names import decode_name, split_member_name
from ..format.tar.scan import TarScan, read_members
from ..storage import EPath, FileInfo, ReadableFile, Storage, UnannouncedReads
from .json_values import json_expressions

__all__ = ["FirstSamples", "ShardFolder", "field_map_warnings", "inspect_folder", "inspect_samples"]

_MAX_SAMPLES = 500
_MAX_SHARDS_TRIED = 3  # a damaged first shard must not hide the samples of the others
_MAX_PART_BYTES = 256 * 1024 * 1024  # of each part of the first sample
_MAX_DOCUMENTS = 10  # samples whose json is parsed
_FAR_HEAD_BYTES = 2 << 20  # of a shard in an object store: fetched in about a round trip
_MAX_FAR_READS = 10  # of the headers of a shard in an object store, each a request
_MAX_HEAD_BYTES = 1 << 20  # of a JSONL file, and of each json part after the first


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSamples:
    """Facts about the first samples of a folder of shards.

    Attributes:
        samples: Number of samples inspected.
        part_counts: Part name → number of inspected samples that have it, in order of first occurrence.
        key: Key of the first sample, ``<shard>/<key>``.
        parts: Parts of the first sample, name → bytes; of a row of a Parquet file, column → value.
        json_example: Decoded ``json`` part of the first sample with a readable one.
        json_values: Expressions of the values inside the json parts of the first samples: ``json[meta][url]``.
        fault: Why no sample could be read.
        kinds: Part name → what the first bytes of the first such part say.
        holds_values: The parts are columns of Parquet files, which are not decoded.
    """

    samples: int = 0
    part_counts: Mapping[str, int] = field(default_factory=dict)
    key: str = ""
    parts: Mapping[str, Any] = field(default_factory=dict)
    json_example: Mapping[str, Any] | None = None
    json_values: Sequence[str] = ()
    fault: str | None = None
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    holds_values: bool = False

    @property
    def part_names(self) -> list[str]:
        """Part names, the most frequent first."""
        return sorted(self.part_counts, key=lambda name: -self.part_counts[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFolder:
    """A folder of shards before it is prepared.

    Attributes:
        storage: The folder.
        sizes: Shard → bytes, in the order of the dataset.
        first: The first samples.
        has_split: The folder has a split from an earlier prepare.
        has_dataset_yaml: The folder has a ``dataset.yaml`` from an earlier prepare.
        prepared: The folder was prepared before.
    """

    storage: Storage
    sizes: Mapping[str, int]
    first: FirstSamples
    has_split: bool
    has_dataset_yaml: bool
    prepared: bool

    @property
    def meta_folder(self) -> EPath:
        """The ``.nv-meta`` folder."""
        return EPath(self.storage.path(FOLDER))

    def has_file(self, name: str) -> bool:
        """Return True if a file of this name exists in ``.nv-meta``."""
        return self.storage.exists(f"{FOLDER}/{name}")


def inspect_folder(
    path: str,
    *,
    exclude: str | None = None,
    dataset_yaml_name: str = "dataset.yaml",
    meta_folder: str | None = None,
) -> ShardFolder:
    """Find the shards of a folder, read its first samples, and check for files of an earlier prepare.

    Args:
        path: The folder.
        exclude: Regular expression of shards to exclude.
        dataset_yaml_name: Name of the dataset file in ``.nv-meta``.
        meta_folder: Folder to use instead of ``.nv-meta``.

    Raises:
        StorageError: The folder does not exist or has no shards.
    """
    storage = open_dataset_storage(path, meta_folder)
    storage.list_once("")
    read_committed_documents(storage)
    search = find_shards(storage, exclude=exclude)
    sizes = {shard.name: shard.size_bytes for shard in search.shards}

    def has_any(*names: str) -> bool:
        return any(storage.exists(f"{FOLDER}/{name}") for name in names)

    prepared = storage.exists(INFO_JSON) or storage.exists(INFO_YAML)
    return ShardFolder(
        storage=storage,
        sizes=sizes,
        first=inspect_samples(storage, search.shards),
        has_split=prepared and has_any("split.yaml", "split.json"),
        has_dataset_yaml=prepared and has_any(dataset_yaml_name),
        prepared=prepared,
    )


def inspect_samples(storage: Storage, shards: Sequence[FileInfo]) -> FirstSamples:
    """Read the first samples of the first readable shard.

    Unreadable shards are skipped: the scan of a prepare reports each of them with its path and offset.
    """
    fault: str | None = None
    for shard in shards[:_MAX_SHARDS_TRIED]:
        try:
            match record_format(shard.name):
                case "jsonl":
                    first = _inspect_lines(storage, shard.name)
                case "parquet":
                    first = _inspect_rows(storage, shard.name)
                case _:
                    first = _inspect_shard(storage, shard)
        except EnergonError as error:
            fault = fault or error.message
            continue
        if first.samples:
            return first
    return FirstSamples(fault=fault)


def _inspect_shard(storage: Storage, info: FileInfo) -> FirstSamples:
    shard, is_far = info.name, storage.checks_versions
    most = _MAX_FAR_READS if is_far else None
    with storage.open(shard, info) as opened:
        opened.expect_few()
        file: ReadableFile = _Head(opened, _FAR_HEAD_BYTES) if is_far else opened
        samples: dict[str, dict[str, tuple[int, int]]] = {}  # key → part name → offset and size
        batch = next(read_members(file, TarScan(file.size_bytes, storage.path(shard)), max_requests=most))
        rows = zip(batch.names.tolist(), batch.content_offset.tolist(), batch.size_bytes.tolist(), strict=True)
        for name, offset, size_bytes in rows:
            split = split_member_name(decode_name(name))
            if split is None:
                continue
            key, part_name = split
            if key not in samples and len(samples) == _MAX_SAMPLES:
                break
            samples.setdefault(key, {})[part_name] = (offset, size_bytes)
        if not samples:
            return FirstSamples()
        first_key, first_parts = next(iter(samples.items()))
        documents = list(_documents(file.read_at, samples))
        counts = Counter(part_name for parts in samples.values() for part_name in parts)
        return FirstSamples(
            samples=len(samples),
            part_counts=dict(counts),
            key=f"{shard}/{first_key}",
            parts={
                part_name: file.read_at(offset, size_bytes)
                for part_name, (offset, size_bytes) in first_parts.items()
                if size_bytes <= _MAX_PART_BYTES
            },
            json_example=next((document for _, document in documents), None),
            json_values=json_expressions(documents),
            kinds=_kinds(file, samples, file.size_bytes if not is_far else _FAR_HEAD_BYTES),
        )


def _kinds(file: ReadableFile, samples: Mapping[str, Mapping[str, tuple[int, int]]], stop: int) -> dict[str, Kind]:
    """Return what the first part of each name is by its first bytes; parts that begin after ``stop`` are not read."""
    kinds: dict[str, Kind] = {}
    for parts in samples.values():
        for name, (offset, size_bytes) in parts.items():
            if name not in kinds and size_bytes and offset + min(size_bytes, HEADER_BYTES) <= stop:
                kinds[name] = kind_of_bytes(file.read_at(offset, min(size_bytes, HEADER_BYTES)), size_bytes)
    return kinds


class _Head(UnannouncedReads):
    """A far file whose first bytes are read at once.

    Args:
        file: The file.
        size_bytes: Number of these bytes.
    """

    def __init__(self, file: ReadableFile, size_bytes: int) -> None:
        self.size_bytes = file.size_bytes
        self._file = file
        self._data = file.read_at(0, min(size_bytes, file.size_bytes))

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        stop = min(offset + size_bytes, self.size_bytes)
        return self._data[offset:stop] if stop <= len(self._data) else self._file.read_at(offset, size_bytes)


def _inspect_lines(storage: Storage, shard: str) -> FirstSamples:
    with storage.open(shard) as file:
        head = file.read_at(0, min(file.size_bytes, _MAX_HEAD_BYTES))
        complete = head if len(head) == file.size_bytes else head[: head.rfind(b"\n") + 1]
    lines = [line for line in complete.removeprefix(BYTE_ORDER_MARK).split(b"\n") if line.strip()][:_MAX_SAMPLES]
    if not lines:
        return FirstSamples()
    objects = [document for document in map(_parse_object, lines[:_MAX_DOCUMENTS]) if document is not None]
    return FirstSamples(
        samples=len(lines),
        part_counts={LINE: len(lines)},
        key=f"{shard}/0",
        parts={LINE: lines[0]},
        json_example=next(iter(objects), None),
        json_values=json_expressions((LINE, document) for document in objects),
    )


def _inspect_rows(storage: Storage, shard: str) -> FirstSamples:
    from ..format.parquet.row_file import RowFile

    try:
        file = RowFile(storage, shard)
    except ImportError:
        return FirstSamples()  # the scan reports it
    samples = min(len(file), _MAX_SAMPLES)
    if not samples:
        return FirstSamples()
    is_small = max(file.group_bytes) <= _MAX_PART_BYTES  # a row is read with its whole row group
    with closing(RecordReader(file)) as reader:
        parts = reader.read_parts(0) if is_small else {}
    return FirstSamples(
        samples=samples,
        part_counts=dict.fromkeys(file.part_names, samples),
        key=f"{shard}/0",
        parts=parts,
        holds_values=True,
    )


def _documents(
    read_at: Callable[[int, int], bytes], samples: Mapping[str, Mapping[str, tuple[int, int]]]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the json parts of the first samples that hold a mapping, with their names; large ones only if first."""
    limit = _MAX_PART_BYTES
    for parts in list(samples.values())[:_MAX_DOCUMENTS]:
        for part_name, (offset, size_bytes) in parts.items():
            if part_extension(part_name) != "json" or is_compressed(part_name) or size_bytes > limit:
                continue
            document = _parse_object(read_at(offset, size_bytes))
            if document is not None:
                yield part_name, document
                limit = _MAX_HEAD_BYTES


def _parse_object(text: bytes) -> Mapping[str, Any] | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def field_map_warnings(
    choice: DatasetYaml, first: FirstSamples, *, meta_folder: os.PathLike[str], trust_code: bool = False
) -> list[str]:
    """Return a warning for each field that the first samples cannot fill; later samples may.

    Args:
        choice: Sample type and field map.
        first: The first samples.
        meta_folder: The dataset's ``.nv-meta``.
        trust_code: Load pickles.
    """
    if choice.field_map is None or not first.samples:
        return []
    field_map = parse_field_map(dict(choice.field_map), file="the field map")
    proposals = propose_field_map(choice.spec, first.part_names, first.json_example, kinds=first.kinds)
    warnings: list[str] = []
    testable: dict[str, str] = {}
    for name in field_map.fields:
        expression = field_map.expressions()[name]
        missing = _missing_part(field_map, name, first)
        if missing is not None:
            warnings.append(f"{missing}{_suggestion(field_map, name, first, proposals)}")
        elif FieldMap({name: field_map.fields[name]}).missing(first.parts):
            if choice.spec.field(name).required:
                only = ", ".join(first.parts)
                warnings.append(f"field {name!r} ({expression}): the first sample, {first.key}, has only {only}")
        else:
            testable[name] = expression
    for name, fault in _faults(choice, testable, first, meta_folder=meta_folder, trust_code=trust_code):
        proposal = proposals.get(name)
        has_hint = "did you mean" in fault or proposal in (None, testable[name])
        warnings.append(
            f"in the first sample, {first.key}, {fault}{'' if has_hint else f'; did you mean {proposal!r}?'}"
        )
    return warnings


def _missing_part(field_map: FieldMap, name: str, first: FirstSamples) -> str | None:
    if not FieldMap({name: field_map.fields[name]}).missing(first.part_counts):
        return None
    expression = field_map.expressions()[name]
    seen = f"the first {first.samples:,} samples have" if first.samples > 1 else "the only sample inspected has"
    return f"field {name!r} comes from {expression!r}, but {seen} only {', '.join(first.part_names)}"


def _suggestion(field_map: FieldMap, name: str, first: FirstSamples, proposals: Mapping[str, str]) -> str:
    near = nearest_names(field_map.fields[name][0].part, first.part_names, limit=1)
    meant = near[0] if near else proposals.get(name)
    return f"; did you mean {meant!r}?" if meant else ""


def _faults(
    choice: DatasetYaml,
    expressions: Mapping[str, str],
    first: FirstSamples,
    *,
    meta_folder: os.PathLike[str],
    trust_code: bool,
) -> Iterator[tuple[str, str]]:
    """Yield the fields that the first sample cannot fill; each is checked separately, to report all of them."""
    from ..samples.building.check import DecodeCheck

    for name, expression in expressions.items():
        checked = {name: expression}
        if name == "turns" and "images" in expressions:  # which have their places in the turns
            checked["images"] = expressions["images"]
        field_map = parse_field_map(checked, file="the field map")
        config = DatasetConfig(sample_type=choice.spec.name, field_map=field_map)
        needed = {part: data for part, data in first.parts.items() if part in field_map.part_names()}
        if not trust_code and any(kind_of_name(part) == "pickle" for part in needed):
            continue  # pickles are not loaded
        check = DecodeCheck(config, meta_folder, trust_code)
        faults = check.check_values(first.key, needed) if first.holds_values else check(first.key, needed)
        for part, fault in faults:
            if name == "turns" and fault.startswith("field 'images'"):
                continue  # reported with the images
            if choice.spec.field(name).required or part is not None or "is missing" not in fault:
                yield name, fault if fault.startswith("field ") else f"field {name!r} ({expression}): {fault}"
