"""One dataset of the catalogue: its samples by number, and ranges of bytes of their parts."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...dataset.dataset import PartPlace
from ...dataset.opening import dataset_at
from ...dataset.query import SampleQuery, find_samples
from ...dataset.records import SingleFile
from ...dataset.selection import Selection
from ...dataset.split_parts import is_excluded
from ...dataset.tar import TarDataset
from ...errors import ConfigError, FormatError
from ...format.dataset_ref import DatasetRef
from ...format.index.dataset_index import PartLocation
from ...format.index.layout import ShardEntry
from ...format.nv_meta import FOLDER, INFO_JSON
from ...order.index_permutation import permute_array
from ...parts.kinds import kind_of_name
from ...storage import LocalStorage

if TYPE_CHECKING:
    from ..runs import PlannedRun, RunRequest, TracedSample


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleOrder:
    """An order of samples.

    Attributes:
        ranges: The samples, as ranges of their numbers, or as an array of them.
        seed: Shuffles them; None keeps the order of the shards.
    """

    ranges: Sequence[range] | IntArray
    seed: int | None = None

    def __len__(self) -> int:
        return len(self.ranges) if isinstance(self.ranges, np.ndarray) else sum(map(len, self.ranges))


def ordered_samples(order: SampleOrder, start: int, stop: int) -> IntArray:
    """Return the numbers of the samples at the places from ``start`` to ``stop`` of an order; fewer at its end.

    >>> ordered_samples(SampleOrder(ranges=[range(3), range(7, 9)]), 2, 10).tolist()
    [2, 7, 8]
    """
    total = len(order)
    places = np.arange(max(0, start), max(0, min(stop, total)), dtype=np.int64)
    if order.seed is not None and len(places):
        places = permute_array(places, total, order.seed)
    if isinstance(order.ranges, np.ndarray):
        return order.ranges[places]
    ends = np.cumsum([len(some) for some in order.ranges], dtype=np.int64)
    which = np.searchsorted(ends, places, side="right")
    shifts = np.array([some.start - end + len(some) for some, end in zip(order.ranges, ends, strict=True)], np.int64)
    return places + shifts[which] if len(places) else places


_MAX_STEPS = 1_000_000  # behind the first one that are shown: a run has no end


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOrder:
    """The samples of a training run from a step on; see :class:`loader.inspect.runs.RunRequest`.

    Attributes:
        step: The first step.
        rank: Only the micro-batches of this rank; None for all ranks, in their order.
    """

    request: RunRequest
    step: int = 0
    rank: int | None = None

    def __len__(self) -> int:
        ranks = self.request.world_size if self.rank is None else 1
        return _MAX_STEPS * ranks * (self.request.batch_size or 1)


def training_rows(order: TrainingOrder, start: int, stop: int) -> list[TracedSample]:
    """Return the samples at the places from ``start`` to ``stop`` of an order."""
    size, world = order.request.batch_size or 0, order.request.world_size
    if size < 1 or world < 1:
        raise ConfigError(f"expected at least 1 sample and 1 rank, found {size} and {world}", hint="raise the numbers")
    if order.rank is not None and not 0 <= order.rank < world:
        raise ConfigError(f"expected a rank in [0, {world}), found {order.rank}", hint="raise the number of ranks")
    from ..runs import traced_batch

    run = _open_run(order.request)
    rows: list[TracedSample] = []
    stop = min(stop, len(order))
    for batch in range(start // size, -(-stop // size)):
        step, rank = divmod(batch, world) if order.rank is None else (batch, order.rank)
        for position, sample in enumerate(traced_batch(run, (step + order.step) * world + rank)):
            if start <= batch * size + position < stop:
                rows.append(sample)
    return rows


@lru_cache(maxsize=4)
def _open_run(request: RunRequest) -> PlannedRun:
    from ..runs import PlannedRun

    return PlannedRun(request)


_CHECKED_EVERY_S = 1.0  # how often the files of a dataset are compared: each page asks


@dataclass(frozen=True, slots=True, kw_only=True)
class GridSample:
    """A sample as the grid shows it, with the name of its first picture."""

    number: int
    shard: str
    key: str
    picture: str | None
    excluded: bool


class DatasetAddress(NamedTuple):
    """A dataset for worker processes, and the version of it that the server has opened."""

    ref: DatasetRef
    version: str


def clip(ranges: Sequence[range], within: range) -> list[range]:
    """Return the parts of ascending ranges that are within another one.

    >>> clip([range(3), range(5, 9), range(9, 12)], range(2, 7))
    [range(2, 3), range(5, 7)]
    """
    cut = (range(max(within.start, piece.start), min(within.stop, piece.stop)) for piece in ranges)
    return [piece for piece in cut if len(piece)]


class BrowsedDataset:
    """A dataset that threads may read at the same time.

    Args:
        weight: Its weight in a metadataset; None without one.
        split_part: The split part that a metadataset uses; None for all.
        is_prepared: It has a ``.nv-meta`` of its own, in which exclusions and tags are kept.
    """

    def __init__(
        self,
        name: str,
        ref: DatasetRef,
        *,
        weight: float | None = None,
        split_part: str | None = None,
        place: str = "",
        is_prepared: bool = True,
    ) -> None:
        self.name = name
        self.folder = dataset_at(ref, rechecks=True)
        self._files = self._stat_files()
        self._checked_at_s = time.monotonic()
        self.weight = weight
        self.split_part = split_part
        self.place = place
        self.is_prepared = is_prepared
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.folder.index)

    @cached_property
    def version(self) -> str:
        """A name of the dataset's shards as they are indexed: in one version, a number is always the same sample."""
        shards = repr((self.folder.path, self.folder.index.shards))
        return hashlib.sha256(shards.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def ref(self) -> DatasetRef:
        """The dataset, and the documents by which it is read."""
        return replace(self.folder.ref, path=self.folder.path)

    @property
    def address(self) -> DatasetAddress:
        """The dataset for worker processes."""
        return DatasetAddress(self.ref, self.version)

    @cached_property
    def shards(self) -> Mapping[str, ShardEntry]:
        """The shards by name."""
        return {shard.name: shard for shard in self.folder.index.shards}

    @property
    def split_parts(self) -> list[str]:
        """Names of the split parts."""
        split = self.folder.documents.split
        return [] if split is None else list(split.split_parts)

    def ranges(self, *, split_part: str | None = None, shard: str | None = None) -> Sequence[range]:
        """Return the samples of a split part or shard, as ranges of numbers."""
        with self._lock:
            some = Selection(self.folder, split_part or self.split_part).runs()
            if shard is None:
                return some
            entry = self.shards.get(shard)
            if entry is None:
                raise ConfigError(f"there is no shard {shard!r}", at=self.folder.path, hint="check its name")
            return clip(some, self.folder.index.samples_of(entry))

    def chosen(self, where: str, *, split_part: str | None = None, shard: str | None = None) -> IntArray:
        """Return the numbers of the samples for which a condition on columns is true, ascending."""
        with self._lock:
            numbers = find_samples(self.folder, SampleQuery(where=where))
            some = self.ranges(split_part=split_part, shard=shard)
            kept = [numbers[np.searchsorted(numbers, run.start) : np.searchsorted(numbers, run.stop)] for run in some]
            return np.sort(np.concatenate([np.empty(0, np.int64), *kept]))

    def row(self, sample: int) -> GridSample:
        """Describe a sample for the grid; one whose row or line is damaged has no picture."""
        with self._lock:
            index = self.folder.index
            try:
                parts = self.parts(sample)
            except FormatError:
                parts = []
            return GridSample(
                number=sample,
                shard=index.shard_of(sample).name,
                key=index.key(sample),
                picture=next((part.name for part in parts if is_picture(part.name)), None),
                excluded=is_excluded(self.folder, sample),
            )

    def find(self, shard: str, key: str) -> int | None:
        """Return the number of the last sample with a key; None for an unknown key."""
        with self._lock:
            index = self.folder.index
            for sample in reversed(index.find(f"{shard}/{key}")):
                if index.key(sample) == key and index.shard_of(sample).name == shard:
                    return int(sample)
        return None

    def parts(self, sample: int) -> list[PartPlace]:
        """Return the parts of a sample, without reading them from tar shards."""
        with self._lock:
            return self.folder.parts(sample)

    def read(self, sample: int, part: str | PartPlace, start: int = 0, stop: int | None = None) -> bytes:
        """Read the bytes from ``start`` to ``stop`` of a part, fewer at its end; an unknown part is a ``KeyError``."""
        with self._lock:
            folder = self.folder
            location = self.part_place(sample, part) if isinstance(part, str) else part
            if location.offset is None or not isinstance(folder, TarDataset):
                return folder.read(sample, location.name, start, stop)
            shard = folder.index.shard_of(sample)
            folder.open_file(shard)
        # Without the lock: storages answer several reads at a time.
        return folder.read_range(shard, PartLocation(location.name, location.offset, location.size_bytes), start, stop)

    def part_place(self, sample: int, part: str) -> PartPlace:
        """Return where a part is; raise a ``KeyError`` for an unknown one."""
        location = next((known for known in self.parts(sample) if known.name == part), None)
        if location is None:
            raise KeyError(part)
        return location

    def refresh(self) -> bool:
        """Open a local dataset again if it was prepared or split again; return True if it was.

        Files are checked once a second.
        """
        now = time.monotonic()
        if now < self._checked_at_s + _CHECKED_EVERY_S:
            return False
        self._checked_at_s = now
        files = self._stat_files()
        if files == self._files or None in files:  # a missing one: a prepare runs
            return False
        self.reopen()
        return True

    def reopen(self) -> None:
        """Read the dataset's documents again, after they changed."""
        with self._lock:
            files = self._stat_files()
            folder = dataset_at(self.ref, rechecks=True)
            self.folder.close()
            self.folder, self._files = folder, files
            for name in ("shards", "version"):
                vars(self).pop(name, None)

    def check_editable(self) -> None:
        """Check that exclusions and tags of samples can be kept."""
        if not self.is_prepared:
            raise ConfigError(
                "this dataset is not prepared, so there is no .nv-meta for exclusions and tags",
                at=self.folder.path,
                hint="run energon prepare on its folder, and browse the folder",
            )

    def close(self) -> None:
        """Close all shards."""
        with self._lock:
            self.folder.close()

    def _stat_files(self) -> tuple[tuple[int, int] | None, ...]:
        """Return time and size of the files that are written when a local dataset changes."""
        if not isinstance(self.folder.storage, LocalStorage) or isinstance(self.folder, SingleFile):
            return ()
        names = [INFO_JSON]
        if self.folder.documents.split_file is not None:
            names.append(f"{FOLDER}/{self.ref.split_file}")
        return tuple(_stat(self.folder.storage.path(name)) for name in names)


def _stat(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


_MEDIA_TYPES = {
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
    "bmp": "image/bmp",
    "avif": "image/avif",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "oga": "audio/ogg",
    "opus": "audio/ogg",
    "m4a": "audio/mp4",
    "mp4": "video/mp4",
    "m4v": "video/mp4",
    "webm": "video/webm",
    "mov": "video/quicktime",
}
_TEXTS = ("txt", "json", "jsonl", "html", "htm", "svg", "xml", "md", "csv", "tsv", "yaml", "yml", "cls", "caption")


def _extension(part: str) -> str:
    return part.rpartition(".")[2].lower()


def is_picture(part: str) -> bool:
    """Return True if a part has the name of an image that Pillow decodes.

    >>> is_picture("seg.PNG"), is_picture("svg")
    (True, False)
    """
    return kind_of_name(_extension(part)) == "image"


def media_type(part: str) -> str:
    """Return the media type that a part is sent with: SVG and HTML are text, and unknown parts are bytes.

    >>> media_type("jpg"), media_type("svg"), media_type("x.wav"), media_type("pkl")
    ('image/jpeg', 'text/plain; charset=utf-8', 'audio/wav', 'application/octet-stream')
    """
    extension = _extension(part)
    text = "text/plain; charset=utf-8" if extension in _TEXTS else "application/octet-stream"
    return _MEDIA_TYPES.get(extension, text)
