"""Read and decode the samples of a shard, and report those that do not decode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..accounting.large_parts import LargePart
from ..errors import EnergonError, FormatError
from ..format.index.dataset_index import PartLocation
from ..format.index.layout import ShardEntry
from ..format.index.sample_bytes import read_sample
from ..format.media.kind import media_type_of_name
from ..storage import AscendingFile, ReadableFile, Storage
from .report import Finding, SampleCheck


class PartIndex(Protocol):
    """The keys and parts of samples by number."""

    @property
    def part_names(self) -> tuple[str, ...]:
        """Names of all parts."""

    def key(self, sample: int) -> str:
        """Return the key of a sample."""

    def parts(self, sample: int) -> list[PartLocation]:
        """Return the byte ranges of a sample's parts."""


def media_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of parts with sound or video.

    >>> media_names(("json", "jpg", "mp4", "vocals.wav"))
    ('mp4', 'vocals.wav')
    """
    return tuple(name for name in names if media_type_of_name(f"key.{name}") == "av")


def media_note(names: Iterable[str], level: str, check: SampleCheck | None) -> str | None:
    """Return a line about the parts with sound or video that a lint does not decode, and why.

    Returns:
        None if all are decoded.
    """
    reason = f"level {level}" if check is None else getattr(check, "undecoded_media", None)
    named = ", ".join(media_names(names))
    return f"sound and video were not decoded ({named}): {reason}" if named and reason else None


@dataclass(frozen=True, slots=True)
class SampleLint:
    """Check samples one by one; picklable.

    Attributes:
        check: The check of a sample's parts; None reads them only.
        required: Parts whose absence the check of the headers reports.
    """

    check: SampleCheck | None
    required: frozenset[str] = frozenset()

    def findings(
        self, storage: Storage, index: PartIndex, shard: ShardEntry, samples: Iterable[int]
    ) -> Iterator[Finding]:
        """Yield the findings about samples of one shard."""
        try:
            file = storage.open(shard.name, shard.info)
        except EnergonError as error:
            yield Finding(code="E109", message=error.message, shard=shard.name)
            return
        with AscendingFile(file) if storage.checks_versions else file as reader:
            for sample in samples:
                yield from self._findings_of_one(reader, shard.name, index.key(sample), index.parts(sample))

    def count_media(self, index: PartIndex, samples: Iterable[int]) -> int:
        """Count the parts of samples with sound or video that the check decodes."""
        names = media_names(index.part_names)
        if not names or self.check is None or getattr(self.check, "undecoded_media", None):
            return 0
        return sum(part.name in names for sample in samples for part in index.parts(sample))

    def _findings_of_one(
        self, file: ReadableFile, shard: str, key: str, locations: list[PartLocation]
    ) -> Iterator[Finding]:
        try:
            parts = read_sample(
                file, locations, shard=shard, max_json_bytes=getattr(self.check, "max_json_bytes", None)
            )
        except FormatError as error:
            yield Finding(code="E104", message=error.message, shard=shard, key=key, offset=error.offset)
            return
        except EnergonError as error:
            yield Finding(code="E109", message=error.message, shard=shard, key=key, offset=locations[0].offset)
            return
        try:
            faults = self.check(key, parts) if self.check else ()
        except Exception as error:  # noqa: BLE001 - one sample must not hide the faults of all others
            faults = [(None, f"the check of this sample failed: {type(error).__name__}: {error}")]
        if faults:
            large = frozenset(name for name, data in parts.items() if isinstance(data, LargePart))
            yield from self._faults_of(shard, key, locations, faults, large)

    def _faults_of(
        self,
        shard: str,
        key: str,
        locations: list[PartLocation],
        faults: Sequence[tuple[str | None, str]],
        large: frozenset[str],
    ) -> Iterator[Finding]:
        by_name = {part.name: part for part in locations}
        for part, message in faults:
            location = by_name.get(part or "")
            if location is not None and location.size_bytes == 0:
                continue  # reported as E303 or W308 with the headers
            code = "W310" if part in large else "E302"
            if location is None:
                if part in self.required:
                    continue  # reported with the headers
                code = "E307" if part is None else "E301"
            offset = (location or locations[0]).offset
            yield Finding(code=code, message=message, shard=shard, key=key, part=part, offset=offset)
