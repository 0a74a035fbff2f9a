"""Read and write ``index/<uuid>/layout.json``: the shards as they were when indexed, and the part names.

An :class:`AbstractIndex` numbers the samples of these shards.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

import msgspec

from ...cached_property import cached_property
from ...engine import AccountEntry
from ...errors import EnergonError, plural
from ...parts.part_sets import Missing, PartSets
from ...storage import FileInfo, Storage, read_document
from ..documents.dataset_files import check_shard_names
from ..documents.value_name import PartNames
from ..nv_meta import outdated

LAYOUT_VERSION = 1

# File next to the layout with the table of part sets, which opening a dataset does not need. Earlier versions wrote
# none: then the columns are counted.
PART_SETS_FILE = "part_sets.json"

_Count = Annotated[int, msgspec.Meta(ge=0)]

_MAX_WARNINGS = 10
_MAX_PARTS_PER_SAMPLE = 50  # more are probably not intended
_MIN_NAMES_ONCE = 20  # part names that occur once; fewer may be odd files

# The columns of the index and their types.
COLUMNS = {
    # Per sample: the ends of its rows of parts and of its key.
    "part_ends": "<u8",
    "key_ends": "<u8",
    "key_bytes": "<u1",
    # Per part; those of one sample are consecutive.
    "part_name": "<u4",  # index in AbstractIndex.part_names
    "part_offset": "<u4",  # of the contents, in blocks of 512 bytes
    "part_size": "<u8",  # bytes
    # The table that finds keys: ascending hashes, and their samples.
    "key_hash": "<u8",
    "key_sample": "<u8",
}

# The columns that reading samples needs; the others find keys.
ROW_COLUMNS = ("part_ends", "key_ends", "key_bytes", "part_name", "part_offset", "part_size")


class ShardEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A shard as it was when indexed."""

    name: str
    size_bytes: _Count
    mtime_ns: int
    samples: _Count
    first_sample: _Count
    end_offset: _Count  # of the archive: start of its empty blocks
    plain: bool  # each sample starts with the header of its first part: no PAX or GNU headers, no scattered parts
    scattered: int = 0  # number of samples with parts that are not neighbours
    misread: int = 0  # number of hidden members that other tools take for samples
    warnings: tuple[str, ...] = ()
    etag: str = ""  # version in an object store
    left_out: tuple[AccountEntry, ...] = ()  # members that belong to no sample, by reason
    store: str = ""  # the store of that version; empty in indexes of older versions
    footer: str = ""  # checksum of the footer of a Parquet file, in an index that was shared

    @classmethod
    def of_file(cls, file: FileInfo, *, samples: int, first_sample: int, **facts: Any) -> ShardEntry:
        """Return the entry of a file as it is now; all of its bytes are samples unless ``facts`` say otherwise."""
        return cls(
            name=file.name,
            size_bytes=file.size_bytes,
            mtime_ns=file.mtime_ns,
            etag=file.etag,
            store=file.store or "",
            samples=samples,
            first_sample=first_sample,
            **{"end_offset": file.size_bytes, "plain": True, **facts},
        )

    @property
    def info(self) -> FileInfo:
        """The file as it was when indexed."""
        return FileInfo(
            name=self.name,
            size_bytes=self.size_bytes,
            mtime_ns=self.mtime_ns,
            etag=self.etag,
            store=self.store,
            is_indexed=True,
        )

    def is_version(self, now: FileInfo) -> bool:
        """Return True if a local file has the same size and time of change, or an object the same version."""
        return (self.size_bytes, self.mtime_ns, self.etag) == (now.size_bytes, now.mtime_ns, now.etag)

    def has_changed(self, now: FileInfo) -> bool:
        """Return True if the file has another size, or another version in the same object store."""
        return now.size_bytes != self.size_bytes or (self.info.shares_versions(now) and now.etag != self.etag)

    def was_touched(self, now: FileInfo) -> bool:
        """Return True if the file has another modification time, which counts where versions are not compared."""
        return not self.info.shares_versions(now) and self.info.has_other_time(now)


class PartStats(msgspec.Struct, frozen=True, kw_only=True):
    """The number and sizes of the parts of one name."""

    name: str
    parts: _Count
    total_bytes: _Count
    median_bytes: _Count  # of evenly spaced parts, if there are very many


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """All of an index but its columns."""

    version: int
    samples: _Count
    parts: _Count
    shards: tuple[ShardEntry, ...]
    part_stats: tuple[PartStats, ...]
    duplicate_keys: _Count  # number of samples with the key of an earlier sample
    prepared_by: str
    prepared_at: str
    commit: str = ""  # of the repository on the Hugging Face Hub whose shards were indexed

    @classmethod
    def of_shards(
        cls,
        shards: Sequence[ShardEntry],
        part_stats: Iterable[PartStats] = (),
        *,
        duplicate_keys: int = 0,
        prepared_by: str = "",
        prepared_at: str = "",
        commit: str = "",
    ) -> Layout:
        stats = tuple(part_stats)
        return cls(
            version=LAYOUT_VERSION,
            samples=sum(shard.samples for shard in shards),
            parts=sum(each.parts for each in stats),
            shards=tuple(shards),
            part_stats=stats,
            duplicate_keys=duplicate_keys,
            prepared_by=prepared_by,
            prepared_at=prepared_at,
            commit=commit,
        )


class AbstractIndex(ABC):
    """The index of a dataset. Samples are numbered from 0 over all shards, in the order of ``.info.json``."""

    def __init__(self, uuid: str, layout: Layout, *, path: str) -> None:
        self.uuid = uuid
        self.layout = layout
        self.shards = layout.shards
        self.path = path  # path of the index folder, for messages

    def __len__(self) -> int:
        return self.layout.samples

    @cached_property
    def part_names(self) -> tuple[str, ...]:
        return tuple(stats.name for stats in self.layout.part_stats)

    @property
    def names(self) -> PartNames:
        """The names of the parts, which tell what names of values mean."""
        return PartNames(self.part_names)

    @cached_property
    def _shard_starts(self) -> list[int]:
        return [shard.first_sample for shard in self.layout.shards]

    @cached_property
    def _shard_by_name(self) -> dict[str, ShardEntry]:
        return {shard.name: shard for shard in self.layout.shards}

    @abstractmethod
    def key(self, sample: int) -> str:
        """Return the key of a sample, without its shard."""

    @abstractmethod
    def find(self, key: str) -> list[int]:
        """Return the samples of a bare key or of ``<shard>/<key>``, ascending; empty for an unknown key."""

    def starting(self, samples: range, text: str) -> list[int]:
        """Return the samples whose key begins with a text."""
        return [sample for sample in samples if self.key(sample).startswith(text)]

    def full_key(self, sample: int) -> str:
        """Return ``<shard>/<key>``, unique in the dataset unless the shard repeats a key."""
        return f"{self.shard_of(sample).name}/{self.key(sample)}"

    def shard_of(self, sample: int) -> ShardEntry:
        samples = self.layout.samples
        if not 0 <= sample < samples:
            raise IndexError(f"expected a sample in [0, {samples}), found {sample}")
        return self.layout.shards[self.shard_number(sample)]

    def shard_number(self, sample: int) -> int:
        # Shards without samples start at the same sample as the next shard: the last of them has the sample.
        return bisect_right(self._shard_starts, sample) - 1

    def samples_of(self, shard: ShardEntry) -> range:
        return range(shard.first_sample, shard.first_sample + shard.samples)

    def part_stats(self) -> tuple[PartStats, ...]:
        """Return the part names with their counts and sizes."""
        return self.layout.part_stats

    @property
    def has_part_sets(self) -> bool:
        """True if ``part_sets`` needs no columns."""
        return True

    @property
    @abstractmethod
    def part_sets(self) -> PartSets:
        """The table of part sets: which part names occur together, and in how many samples."""

    def missing(self, fields: Mapping[str, Sequence[str]]) -> dict[str, Missing]:
        """Return the fields that some samples cannot fill.

        Args:
            fields: Field → part names; one of them is enough.
        """
        return self.part_sets.coverage(fields)


def encode_struct(struct: Layout | PartSets) -> bytes:
    """Encode a layout, or a table of part sets, as JSON."""
    # The standard library writes names that are not UTF-8, unlike msgspec; with an indent, it is ten times slower.
    return json.dumps(msgspec.to_builtins(struct)).encode("ascii")


def read_part_sets(storage: Storage, folder: str, *, samples: int) -> PartSets | None:
    """Read the table of part sets in the folder of an index; None if it is missing, damaged or of other samples."""
    name = f"{folder}/{PART_SETS_FILE}"
    if not storage.exists(name):
        return None
    try:
        table = msgspec.convert(json.loads(read_document(storage, name)), PartSets)
    except (EnergonError, ValueError, RecursionError):
        return None
    return table if table.samples == samples else None


def decode_layout(data: bytes, *, file: str) -> Layout:
    """Decode a layout."""
    try:
        # Faults are reported below, by the parser that accepts all names.
        with suppress(msgspec.DecodeError, RecursionError):
            layout = msgspec.json.decode(data, type=Layout)
            if layout.version == LAYOUT_VERSION:
                check_layout(layout)
                return layout
        values = json.loads(data)
        version = values.get("version") if isinstance(values, dict) else None
        if version == LAYOUT_VERSION:
            layout = msgspec.convert(values, Layout)
            check_layout(layout)
            return layout
        message = f"expected an index layout of version {LAYOUT_VERSION}, found {str(version)[:40]!r}"
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        message = f"not an index layout: {error}"
    raise outdated(message, file)


def check_layout(layout: Layout) -> None:
    """Raise a ``ValueError`` if shards have names that lead elsewhere, or other numbers of samples than the layout."""
    check_shard_names(shard.name for shard in layout.shards)
    first = 0
    for shard in layout.shards:
        if shard.first_sample != first:
            raise ValueError(f"expected {shard.name} to start at sample {first}, found {shard.first_sample}")
        first += shard.samples
    if first != layout.samples:
        raise ValueError(f"expected {plural(layout.samples, 'sample')}, found {first} in the shards")


def layout_warnings(layout: Layout) -> list[str]:
    """Return warnings about oddities of a dataset that are harmless or probably not intended."""
    warnings = []
    # Warn about single shards; a few examples are enough.
    empty = [shard.name for shard in layout.shards if not shard.samples]
    if empty:
        warnings.append(f"{plural(len(empty), 'shard has', 'shards have')} no samples, first {empty[0]}")
    noted = [(shard.name, warning) for shard in layout.shards for warning in shard.warnings]
    warnings += [f"{name}: {warning}" for name, warning in noted[:_MAX_WARNINGS]]
    if len(noted) > _MAX_WARNINGS:
        warnings.append(f"and {len(noted) - _MAX_WARNINGS:,} more such warnings (energon lint lists all)")
    # Warn about the dataset as a whole.
    scattered = sum(shard.scattered for shard in layout.shards)
    if scattered:
        warnings.append(
            f"not neighbours in their shard: the parts of {plural(scattered, 'sample')}, so reading them takes longer"
        )
    if layout.duplicate_keys:
        warnings.append(
            f"{plural(layout.duplicate_keys, 'sample repeats', 'samples repeat')} the key of a sample in another shard:"
            " look-up by bare key finds several (energon prepare --fix-duplicates renames them)"
        )
    if layout.parts > _MAX_PARTS_PER_SAMPLE * layout.samples:
        warnings.append(
            f"there are {plural(layout.parts // layout.samples, 'part')} a sample: is there a dot too many in the file "
            "names? The key ends at the first dot"
        )
    return [*warnings, *once_warning(layout)]


def once_warning(layout: Layout) -> list[str]:
    """Return a warning if most part names occur once: then base names contain dots."""
    once = [stats.name for stats in layout.part_stats if stats.parts == 1]
    if len(once) < _MIN_NAMES_ONCE or 2 * len(once) < len(layout.part_stats):
        return []
    message = (
        f"{plural(len(once), 'part name occurs', 'part names occur')} once each, first {once[0]!r}: base names contain"
        " dots, which end a key; rename the files, or unpack the shards and run energon import, which replaces them"
    )
    return [message]
