"""Plan an import: list the rows of its sources, and divide them into shards."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from ...arrays import IntArray
from ...engine import Account
from ...engine.run import RunsOnEngine
from ...errors import ConfigError, plural
from ...storage import Storage
from ...storage.remote import DownloadOptions, host_of
from ...storage.temporary_files import scratch_folder
from ...storage.unpacked import check_ratio
from ..rows.row import FaultRef, FileRef, Row, UrlRef
from ..rows.row_file import RowFileWriter, StoredRows
from ..rows.row_groups import join_groups
from ..rows.shard_layout import ShardLayout, order_rows, plan_shards
from ..sources.source import ImportSource, ListedPictures, Listing
from ..writing.written_shards import FileVersion
from .pictures import PictureOptions

if TYPE_CHECKING:
    from ...storage.remote.fetched_files import Downloads

_REPORT_ROWS = 1000
_MAX_HOSTS = 100_000  # whose rows are counted
_CONTACTED_HOSTS = 64  # those with the most rows
_FIRST_URLS = 3  # of a host, which is given up if none of them is answered
_MAX_RARE_NAMES = 20  # part names with dots that occur once; more are no names of parts


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPart:
    """A split part that is not written yet."""

    name: str
    samples: int
    shards: int


@dataclass(slots=True)
class ListedHosts:
    """The hosts of URLs that rows name.

    Attributes:
        rows: Hosts → number of rows that name files on each of them.
        first: Host → its first URLs.
    """

    urls: int = 0
    rows: Counter[frozenset[str]] = field(default_factory=Counter)
    first: dict[str, list[str]] = field(default_factory=dict)

    def add(self, urls: Sequence[str]) -> None:
        self.urls += len(urls)
        # Keep the first URLs of each host, to try them before the import.
        for url in urls:
            host = host_of(url)
            if host in self.first or len(self.first) < _MAX_HOSTS:
                first = self.first.setdefault(host, [])
                if len(first) < _FIRST_URLS and url not in first:
                    first.append(url)
        self.rows[frozenset(host for host in map(host_of, urls) if host in self.first)] += 1

    def to_contact(self) -> list[str]:
        """Return the first URLs of the hosts with the most rows."""
        counts: Counter[str] = Counter()
        for hosts, rows in self.rows.items():
            counts.update(dict.fromkeys(hosts, rows))
        return [url for host, _ in counts.most_common(_CONTACTED_HOSTS) for url in self.first[host]]

    def rows_of(self, hosts: Collection[str]) -> int:
        return sum(rows for named, rows in self.rows.items() if not named.isdisjoint(hosts))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRows:
    """The samples of sources.

    Attributes:
        part_counts: Part name → number of samples that have it.
        hosts: The hosts of URLs that rows name.
    """

    sources: tuple[ImportSource, ...]
    rows: StoredRows
    part_counts: Counter[str]
    account: Account = field(default_factory=Account)
    notes: tuple[str, ...] = ()
    hosts: ListedHosts = field(default_factory=ListedHosts)

    @property
    def size_bytes(self) -> int:
        """Bytes of shards that the samples will take, as far as their sizes are known."""
        sizes = self.rows.sizes
        known = sizes[sizes >= 0]
        return int(known.mean() * len(sizes)) if len(known) else 0

    @property
    def are_sizes_known(self) -> bool:
        return bool(np.all(self.rows.sizes >= 0))

    def plan(self, layout: ShardLayout) -> list[PlannedPart]:
        order, parts = order_rows(self.rows.splits, self.rows.split_names, layout, self.rows.groups)
        shards = Counter(shard.split for shard in plan_shards(self.rows.sizes[order], parts, layout))
        return [
            PlannedPart(name=name or "train", samples=stop - start, shards=shards[name]) for name, start, stop in parts
        ]

    def notes_on_split(self, layout: ShardLayout) -> Iterator[str]:
        """Yield how a ratio came out for samples that stay together, or which files the source has in several parts."""
        rows, ratio = self.rows, layout.split_ratio
        _, sizes = np.unique(rows.groups, return_counts=True)
        things = sizes[sizes > 1]
        if ratio is not None and len(things):
            shares = ", ".join(f"{part.name} {part.samples / len(rows):.1%}" for part in self.plan(layout))
            yield (
                f"samples that are views of one thing (a clip, a scene, a file) stay in one split part:"
                f" {plural(int(things.sum()), 'sample')} of {plural(len(things), 'thing')}, the largest with"
                f" {things.max():,}; {shares}"
            )
        divided = [] if ratio is not None else map(rows.__getitem__, rows.divided_groups().tolist())
        if files := [row.origin for row in divided if not row.thing]:
            yield (
                f"the source has {plural(len(files), 'file')} in several split parts, such as the one of {files[0]};"
                " --split-ratio divides the samples again, and no file"
            )


@contextmanager
def list_rows(
    sources: Sequence[ImportSource], *, shuffled: bool, on_progress: Callable[[int], None] | None = None
) -> Iterator[ListedRows]:
    """List the samples of sources in a temporary file, which is removed at the end.

    Args:
        sources: The sources, in the order of their samples.
        shuffled: The rows will be read in any order.
        on_progress: Called with the number of samples so far.
    """
    if not sources:
        raise ConfigError("there is no source to import")
    counts: Counter[str] = Counter()
    hosts = ListedHosts()
    account, notes, pictures = Account(), list[str](), ListedPictures()

    def numbered(source: ImportSource, source_index: int) -> Iterator[Row]:
        listing = Listing(shuffled=shuffled, scratch=folder, account=account, notes=notes, pictures=pictures)
        for row in _counted(source, listing, counts, hosts):
            if on_progress is not None and len(writer) % _REPORT_ROWS == 0:
                on_progress(len(writer))
            yield row if source_index == 0 else msgspec.structs.replace(row, source=source_index)

    with (
        scratch_folder() as folder,
        RowFileWriter(os.path.join(folder, "rows")) as writer,
    ):
        for index, source in enumerate(sources):
            writer.add(numbered(source, index))
        if not len(writer):
            raise ConfigError(
                "there are no samples in it", at=sources[0].path, hint="check the path, or name its kind with --from"
            )
        # Account for the pictures next to the listed ones.
        pictures.leave_others(account)
        # Every row is planned to be written. Those that fail are withdrawn later.
        account.take("rows", len(writer))
        account.take("parts", counts.total())
        account.check()
        yield ListedRows(
            sources=tuple(sources),
            rows=writer.finish(),
            part_counts=counts,
            account=account,
            notes=(*notes, *_notes_on_names(counts)),
            hosts=hosts,
        )


def _counted(source: ImportSource, listing: Listing, counts: Counter[str], hosts: ListedHosts) -> Iterator[Row]:
    """Yield the rows of a source, and count their parts and hosts.

    Raises:
        FormatError: The contents of one file are very much larger than it.
    """
    packed = os.path.getsize(source.path) if os.path.isfile(source.path) else None
    unpacked, missing = 0, list[str]()
    for row_index, row in enumerate(join_groups(source.rows(listing), listing.notes)):
        counts.update(row.parts.keys())
        urls = list[str]()
        for part in row.parts.values():
            if isinstance(part, UrlRef):
                urls.append(os.fsdecode(part.url))
            elif isinstance(part, FaultRef) and part.code == "F102":
                missing.append(part.reason)
            elif packed is not None and not isinstance(part, FileRef):
                unpacked += max(0, part.size_bytes)
        if urls:
            hosts.add(urls)
        # Samples come out of one file, which may be an archive of archives, or have many links to one member.
        if packed is not None and row_index % _REPORT_ROWS == 0:
            check_ratio(unpacked, packed, path=source.path)
        yield row
    if packed is not None:
        check_ratio(unpacked, packed, path=source.path)
    if missing:
        name = os.path.basename(source.path)
        listing.notes.append(f"files of {name} are missing: {len(missing):,}, such as {missing[0]}")


def open_downloads(rows: StoredRows, options: DownloadOptions | None, *, keeps: bool = False) -> Downloads | None:
    """Open the downloads of rows in their temporary folder; None if nothing may be downloaded."""
    if options is None:
        return None
    from ...storage.remote.fetched_files import Downloads  # http.client is slow to import

    return Downloads(os.path.join(os.path.dirname(rows.path), "downloads"), options, keeps=keeps)


def _notes_on_names(counts: Counter[str]) -> Iterator[str]:
    """Yield what the rules of names have joined that a person may keep apart."""
    # Many names that occur once are probably pieces of base names.
    rare = [name for name, count in counts.items() if count == 1 and "." in name]
    if len(rare) > _MAX_RARE_NAMES:
        yield (
            f"{plural(len(rare), 'part name occurs', 'part names occur')} once each, such as {rare[0]}: base names seem"
            " to contain dots, and what follows the first one names the part"
        )
    # A second file of one extension may be meant as another sample.
    twice = sum(count for name, count in counts.items() if re.fullmatch(r"2\.[a-z0-9]+", name))
    if twice:
        yield f"{plural(twice, 'sample has', 'samples have')} two files of one extension: the second is 2.{{extension}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan(RunsOnEngine):
    """An import of sources into a new dataset.

    Attributes:
        sources: The sources, in the order of their samples.
        output: Path or URL of the dataset: a new or empty folder, or the folder of an interrupted import.
        layout: How samples are divided into shards and split parts.
        pictures: What is done with pictures.
        max_failures: Most rows that may fail before the import stops: a number, or a share of all rows below 1; None
            for 1 % of the rows, but at least one.
        files: Further files of ``.nv-meta`` to write, name → text (``dataset.yaml``).
        compat: As for :class:`PreparePlan`.
        strict: Publish nothing if any part of the sources is left out or fails.
        downloads: What may be downloaded of the URLs that the sources name; None fails such rows.
        command: Name of the command, for messages.
        inputs: What the dataset depends on besides the rows, name → digest.
    """

    sources: tuple[ImportSource, ...]
    output: str
    layout: ShardLayout = field(default_factory=ShardLayout)
    pictures: PictureOptions = field(default_factory=PictureOptions)
    max_failures: float | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    compat: bool | None = None
    strict: bool = False
    downloads: DownloadOptions | None = None
    command: str = "import"
    inputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProgress:
    """Progress of an import: it lists the samples of the sources, and then writes shards."""

    phase: Literal["list", "write"]
    samples: int
    samples_total: int | None = None  # known in the second phase
    size_bytes: int = 0
    shards_done: int = 0
    shards_total: int = 0
    resumed: int = 0  # number of shards that an interrupted import has written


ProgressCallback = Callable[[ImportProgress], None]


BeforeCommit = Callable[[Storage, IntArray, list[tuple[FileVersion, int]]], None]
"""Called with the dataset, the row of each sample, shape (samples,), and the files with their numbers of samples."""
