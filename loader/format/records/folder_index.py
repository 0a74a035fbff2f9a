"""Open record files, and the index of a prepared folder of them: the number of samples of each file.

Where a sample is within its file is recorded by the file: by the ``.idx`` next to a JSONL file, and by the footer of a
Parquet file. So the folder's index has no columns, only ``layout.json``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...errors import ConfigError, EnergonError, plural
from ...parts.part_sets import PartSet, PartSets, join_part_sets
from ...storage import FileInfo, LocalStorage, ReadableFile, Storage, open_parent, read_document
from ..data_kind import data_kind
from ..documents.value_name import ColumnNames, PartNames
from ..index.current import read_uuid
from ..index.layout import (
    AbstractIndex,
    Layout,
    PartStats,
    ShardEntry,
    decode_layout,
    read_part_sets,
)
from ..index.locations import SampleLocations
from ..nv_meta import INDEX_FOLDER, outdated
from .record_file import RecordFile, locations_of, record_number


def open_record_file(storage: Storage, name: str, info: FileInfo | None = None) -> RecordFile:
    """Open a file of numbered samples.

    Args:
        info: Its version in an object store, if it is known: then no request is made for it.

    Raises:
        ImportError: The package that reads the format is not installed.
    """
    # Imported late: a run with token files needs no parser of JSON, and one with JSONL files no pyarrow.
    match data_kind(name).format:
        case "jsonl":
            from .line_file import LineFile

            return LineFile(storage, name)
        case "binidx":
            from .token_file import TokenFile

            return TokenFile(storage, name)
        case "parquet":
            from .row_file import RowFile

            return RowFile(storage, name, info if storage.checks_versions else None)
    raise ConfigError("expected a file whose name ends with .jsonl, .bin or .parquet", at=storage.path(name))


def open_record_path(path: str) -> RecordFile:
    """Open the file of numbered samples at a path; see :func:`open_record_file`."""
    return open_record_file(*open_parent(path))


ROW_GROUPS_FILE = "row_groups.npy"
"""File next to the layout with the samples and the bytes of each row group. Earlier versions wrote none: then the
dataset keeps the order that it had."""


class RecordIndex(AbstractIndex):
    """The index of a folder of files of numbered samples. A sample's key is its number in its file.

    Args:
        part_sets: The table of part sets, if it is known.
        row_groups: Samples and bytes of the row groups, if they are known.
        opened: The only file, if it is open already.

    Attributes:
        is_announced: Samples that are located will be read soon, and the files note them.
    """

    is_announced = True

    def __init__(
        self,
        storage: Storage,
        uuid: str,
        layout: Layout,
        *,
        part_sets: PartSets | None = None,
        row_groups: IntArray | None = None,
        opened: RecordFile | None = None,
    ) -> None:
        super().__init__(uuid, layout, path=storage.path(f"{INDEX_FOLDER}/{uuid}"))
        self.format = data_kind(layout.shards[0].name).format if layout.shards else None
        others = [shard.name for shard in layout.shards if data_kind(shard.name).format != self.format]
        if others:
            raise ConfigError(
                f"expected files of one format, found {layout.shards[0].name} and {others[0]}",
                at=storage.path(""),
                hint="put files of each format in a folder of their own, and prepare both",
            )
        self._storage = storage
        self._known_part_sets = part_sets
        self._known_row_groups = row_groups
        self._files: dict[int, RecordFile] = {} if opened is None else {0: opened}
        self._first = np.array(self._shard_starts, np.int64)

    @property
    def names(self) -> PartNames:
        return ColumnNames(self.part_names)

    @property
    def decodes(self) -> bool:
        return self.format == "jsonl"

    def file(self, shard: int) -> RecordFile:
        """Return the file of a shard's number; open it if necessary."""
        file = self._files.get(shard)
        if file is None:
            entry = self.shards[shard]
            file = open_record_file(self._storage, entry.name, entry.info)
            if (len(file), file.size_bytes) != (entry.samples, entry.size_bytes):
                raise outdated(
                    f"the file has changed since it was prepared: it had {plural(entry.samples, 'sample')} in "
                    f"{entry.size_bytes:,} bytes, now {len(file):,} in {file.size_bytes:,}",
                    self._storage.path(entry.name),
                )
            if entry.footer and footer_of(self._storage, entry.info) != entry.footer:
                fault = f"expected a footer with the checksum {entry.footer}: the file is not the indexed one"
                raise outdated(fault, self._storage.path(entry.name))
            self._files[shard] = file
        return file

    @cached_property
    def part_sets(self) -> PartSets:
        folder = f"{INDEX_FOLDER}/{self.uuid}"
        table = self._known_part_sets or read_part_sets(self._storage, folder, samples=len(self))
        if table is not None:
            return table
        return part_sets_of_files(self.shards, [self.file(position).part_names for position in range(len(self.shards))])

    @property
    def schema(self) -> Any:
        """The schema of the first table."""
        return getattr(self.file(0), "schema", None)

    @cached_property
    def row_groups(self) -> IntArray | None:
        """Samples and bytes of the row groups of all files, shape (groups, 2); None if the index has no such table."""
        name = f"{INDEX_FOLDER}/{self.uuid}/{ROW_GROUPS_FILE}"
        if self._known_row_groups is not None:
            return self._known_row_groups
        if self.format != "parquet" or not self.uuid or not self._storage.exists(name):
            return None
        try:
            groups: IntArray = np.load(BytesIO(read_document(self._storage, name)), allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise outdated(f"not a table of row groups: {error}", self._storage.path(name)) from error
        is_table = groups.ndim == 2 and groups.shape[1] == 2 and groups.dtype == np.int64
        ends = np.cumsum(groups[:, 0]) if is_table and groups.min(initial=0) >= 0 else np.empty(0, np.int64)
        files = [shard.first_sample + shard.samples for shard in self.shards]
        if not np.isin(files, [0, *ends]).all() or (len(ends) and ends[-1] != len(self)):
            raise outdated("the row groups are not those of the files", self._storage.path(name))
        return groups[groups[:, 0] > 0]

    @cached_property
    def _number_by_name(self) -> dict[str, int]:
        return {shard.name: position for position, shard in enumerate(self.shards)}

    def number_of(self, shard: str) -> int:
        return self._number_by_name[shard]

    def place(self, sample: int) -> tuple[int, int]:
        """Return the number of a sample's shard, and its number there."""
        if len(self.shards) == 1:
            return 0, sample
        shard = self._number_by_name[self.shard_of(sample).name]
        return shard, sample - self.shards[shard].first_sample

    def key(self, sample: int) -> str:
        return str(self.place(sample)[1])

    def find(self, key: str) -> list[int]:
        name, _, sample = key.rpartition("/")
        shards = [self._shard_by_name[name]] if name in self._shard_by_name else [] if name else self.shards
        candidates = ((shard, record_number(sample, "", shard.samples)) for shard in shards)
        return [shard.first_sample + within for shard, within in candidates if within is not None]

    def locate(self, samples: IntArray, into: SampleLocations | None = None) -> SampleLocations:
        """Locate samples by their numbers; append them to ``into`` if it is given."""
        shard = np.searchsorted(self._first, samples, side="right") - 1
        within = samples - self._first[shard]
        start, size = np.zeros(len(samples), np.int64), np.zeros(len(samples), np.int64)
        for position in np.unique(shard).tolist() if len(self.shards) > 1 else [0]:
            rows = shard == position
            file = self.file(position)
            if self.is_announced:
                file.expect(within[rows])
            start[rows], size[rows] = file.spans(within[rows])
        part = self.part_names[0] if self.part_names else ""
        located = locations_of(samples, keys=within, shard=shard, spans=(start, size), part=part)
        if into is None:
            return located
        into.extend(located)
        return into

    def read(self, file: ReadableFile, sample: int, wanted: Callable[[str], bool] | None = None) -> dict[str, Any]:
        shard, within = self.place(sample)
        return self.file(shard).read(file, within, wanted)

    def media_of(self, sample: int) -> Mapping[str, str]:
        """Return the parts of a sample that are media; see :attr:`.RecordFile.media`."""
        return self.file(self.place(sample)[0]).media

    def values(self, parts: Mapping[str, Any], sample: int) -> dict[str, Any]:
        shard, within = self.place(sample)
        return self.file(shard).values(parts, within)


def open_record_index(storage: Storage, shard_counts: Mapping[str, int]) -> RecordIndex:
    """Open the index of a prepared folder of files of numbered samples.

    Args:
        shard_counts: Shards and sample counts of ``.info.json``.
    """
    uuid = read_uuid(storage)
    name = f"{INDEX_FOLDER}/{uuid}/layout.json"
    if uuid is not None and storage.exists(name):
        try:
            layout = decode_layout(read_document(storage, name), file=storage.path(name))
        except EnergonError:
            layout = None
        if layout is not None and [(shard.name, shard.samples) for shard in layout.shards] == list(
            shard_counts.items()
        ):
            return RecordIndex(storage, uuid, layout)
    # Another tool prepared the folder, or a prepare was interrupted while it renamed its files.
    layout = layout_of(storage, shard_counts)
    return RecordIndex(storage, uuid or f"{zlib.crc32(repr(layout.shards).encode()):08x}", layout)


def footer_of(storage: Storage, file: FileInfo) -> str:
    """Return the checksum of the footer of a Parquet file, which says where its values are; empty for other files."""
    if not file.name.endswith(".parquet"):
        return ""
    end = file.size_bytes - 8
    footer_bytes = int.from_bytes(storage.read(file.name, max(0, end), end + 4), "little")
    return f"{zlib.crc32(storage.read(file.name, max(0, end - footer_bytes), file.size_bytes)):08x}"


def part_sets_of_files(shards: Sequence[ShardEntry], part_names: Iterable[Iterable[str]]) -> PartSets:
    """Return the part sets of files of numbered samples."""
    return join_part_sets(
        PartSets(
            sets=(
                PartSet(
                    parts=tuple(sorted(names)),
                    samples=shard.samples,
                    shards=1,
                    first_sample=0,
                    example=f"{shard.name}/0",
                ),
            )
            if shard.samples
            else (),
            samples=shard.samples,
        )
        for shard, names in zip(shards, part_names, strict=True)
    )


def layout_of(storage: Storage, shard_counts: Mapping[str, int], *, opened: RecordFile | None = None) -> Layout:
    """Return the layout of some files as they are now.

    Args:
        opened: The only file, if it is open already; a remote one is not requested again.
    """
    shards = []
    total = 0
    for name, samples in shard_counts.items():
        if opened is None or isinstance(storage, LocalStorage):
            now = storage.stat(name)
            info = FileInfo(name=name, size_bytes=now.size_bytes, mtime_ns=now.mtime_ns)
        else:
            info = FileInfo(name=name, size_bytes=opened.size_bytes, mtime_ns=0)
        shards.append(ShardEntry.of_file(info, samples=samples, first_sample=total))
        total += samples
    file = opened or (open_record_file(storage, shards[0].name) if shards else None)
    names = () if file is None else file.part_names
    stats = (PartStats(name=name, parts=total, total_bytes=0, median_bytes=0) for name in names)
    return Layout.of_shards(shards, stats, prepared_by="another tool")
