"""List the samples of sources, before any of them is written."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ...accounting import Account
from ...errors import ConfigError
from ...storage.remote import DownloadOptions, host_of
from ...storage.scratch_folder import scratch_folder
from ..rows.row import Row, UrlRef
from ..rows.row_file import RowFile, RowFileWriter, ShardLayout, order_rows, plan_shards
from ..sources.source import ListedPictures, Listing, Source

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
        """Return the number of rows that name a file on one of some hosts."""
        return sum(rows for named, rows in self.rows.items() if not named.isdisjoint(hosts))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRows:
    """The samples of sources.

    Attributes:
        part_counts: Part name → number of samples that have it.
        is_shuffled: The rows may be read in any order.
        hosts: The hosts of URLs that rows name.
    """

    sources: tuple[Source, ...]
    rows: RowFile
    part_counts: Counter[str]
    is_shuffled: bool
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
        """Return the split parts that a layout makes of the samples."""
        order, parts = order_rows(self.rows.splits, self.rows.split_names, layout)
        shards = Counter(shard.split for shard in plan_shards(self.rows.sizes[order], parts, layout))
        return [
            PlannedPart(name=name or "train", samples=stop - start, shards=shards[name]) for name, start, stop in parts
        ]


@contextmanager
def list_rows(
    sources: Sequence[Source], *, shuffled: bool, on_progress: Callable[[int], None] | None = None
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

    def numbered(source: Source, number: int) -> Iterator[Row]:
        listing = Listing(shuffled=shuffled, scratch=folder, account=account, notes=notes, pictures=pictures)
        for row in source.rows(listing):
            counts.update(row.parts.keys())
            urls = [os.fsdecode(part.url) for part in row.parts.values() if isinstance(part, UrlRef)]
            if urls:
                hosts.add(urls)
            if on_progress is not None and len(writer) % _REPORT_ROWS == 0:
                on_progress(len(writer))
            yield row if number == 0 else msgspec.structs.replace(row, source=number)

    with (
        scratch_folder() as folder,
        RowFileWriter(os.path.join(folder, "rows")) as writer,
    ):
        for number, source in enumerate(sources):
            writer.add(numbered(source, number))
        if not len(writer):
            raise ConfigError(
                "there are no samples in it", at=sources[0].path, hint="check the path, or name its kind with --from"
            )
        pictures.leave_others(account)
        # Every row is planned to be written. Those that fail are withdrawn later.
        account.take("rows", len(writer))
        account.take("parts", counts.total())
        account.check()
        yield ListedRows(
            sources=tuple(sources),
            rows=writer.finish(),
            part_counts=counts,
            is_shuffled=shuffled,
            account=account,
            notes=(*notes, *_notes_on_names(counts)),
            hosts=hosts,
        )


def open_downloads(rows: RowFile, options: DownloadOptions | None, *, keeps: bool = False) -> Downloads | None:
    """Open the downloads of rows in their temporary folder; None if nothing may be downloaded.

    Args:
        options: What may be downloaded; None for nothing.
    """
    if options is None:
        return None
    from ...storage.remote.fetched_files import Downloads  # http.client is slow to import

    return Downloads(os.path.join(os.path.dirname(rows.path), "downloads"), options, keeps=keeps)


def _notes_on_names(counts: Counter[str]) -> Iterator[str]:
    """Yield what the rules of names have joined that a person may keep apart."""
    rare = [name for name, count in counts.items() if count == 1 and "." in name]
    if len(rare) > _MAX_RARE_NAMES:
        yield (
            f"{len(rare):,} part names occur once each, such as {rare[0]}: base names seem to contain dots, and what"
            " follows the first one names the part"
        )
    twice = sum(count for name, count in counts.items() if re.fullmatch(r"2\.[a-z0-9]+", name))
    if twice:
        yield f"{twice:,} samples have two files of one extension: the second is the part 2.{{extension}}"
