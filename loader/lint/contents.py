"""Check the contents of samples of any dataset: read and decode them, and report those that do not decode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..dataset.dataset import Dataset
from ..dataset.tar import tar_index
from ..errors import EnergonError, FormatError, error_text
from ..format.index.dataset_index import PartLocation
from ..format.index.layout import ShardEntry
from ..format.index.sample_bytes import read_sample
from ..format.jsonl.lines import LineBlock
from ..format.media.metadata import media_type_of_name
from ..format.records.folder_index import RecordIndex
from ..format.records.record_file import RecordFile, read_record
from ..parts.large_parts import LargePart
from ..storage import AscendingFile, ReadableFile
from .record_file import ColumnFiles, JsonlFiles, fault_of_line
from .report import Caution, SampleCheck
from .rule import Finding, ReadSample, checks_of
from .samples import SampleFaults
from .shard import Shards, unreadable

_Checks = Sequence[Callable[[ReadSample], Iterable[Finding]]]
"""Checks of rules."""


def media_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of parts with sound or video.

    >>> media_names(("json", "jpg", "mp4", "vocals.wav"))
    ('mp4', 'vocals.wav')
    """
    return tuple(name for name in names if media_type_of_name(f"key.{name}") == "av")


def media_note(names: Iterable[str], level: str, check: SampleCheck | None) -> str | None:
    """Return a line about sound and video that a lint does not decode, and why; None if all are decoded."""
    reason = f"level {level}" if check is None else getattr(check, "undecoded_media", None)
    named = ", ".join(media_names(names))
    return f"sound and video were not decoded ({named}): {reason}" if named and reason else None


@dataclass(frozen=True, slots=True)
class SampleLint:
    """Check samples one by one; picklable."""

    check: SampleCheck | None  # the check of a sample's parts; None runs only the checks of the rules
    required: frozenset[str] = frozenset()  # parts whose absence the check of the headers reports
    with_lines: bool = True  # check that lines are JSON objects, too; otherwise the check of the whole file has done so

    def findings(self, dataset: Dataset, shard: ShardEntry, samples: Iterable[int]) -> Iterator[Finding]:
        """Yield the findings about samples of a shard, by their numbers in the dataset, ascending."""
        index = dataset.index
        checks = checks_of([SampleFaults], dataset.kind, "of_sample")
        if isinstance(index, RecordIndex):
            file = index.file(index.number_of(shard.name))
            with file.open() as opened:
                for sample in samples:
                    yield from self._of_record(checks, file, opened, sample - shard.first_sample)
        else:
            yield from self._of_shard(checks, dataset, shard, samples)

    def count_media(self, dataset: Dataset, samples: Iterable[int]) -> int:
        """Count the parts of samples of tar shards with sound or video that the check decodes."""
        index = tar_index(dataset)
        names = media_names(index.part_names)
        if not names or self.check is None or getattr(self.check, "undecoded_media", None):
            return 0
        return sum(part.name in names for sample in samples for part in index.parts(sample))

    @property
    def _max_json_bytes(self) -> int | None:
        return getattr(self.check, "max_json_bytes", None)

    def _of_shard(
        self, checks: _Checks, dataset: Dataset, shard: ShardEntry, samples: Iterable[int]
    ) -> Iterator[Finding]:
        # Open the shard.
        index, storage = tar_index(dataset), dataset.storage
        try:
            file = storage.open(shard.name, shard.info)
        except EnergonError as error:
            yield unreadable(error, shard.name)
            return
        # Read and check each sample.
        with AscendingFile(file) if storage.checks_versions else file as reader:
            for sample in samples:
                key, locations = index.key(sample), index.parts(sample)
                try:
                    parts = read_sample(reader, locations, shard=shard.name, max_json_bytes=self._max_json_bytes)
                except FormatError as error:
                    yield Finding(Shards.E104, error.message, shard=shard.name, key=key, offset=error.offset)
                    continue
                except EnergonError as error:
                    yield unreadable(error, shard.name, key=key, offset=locations[0].offset)
                    continue
                read = ReadSample(shard=shard.name, key=key, parts=parts)
                yield from self._of_sample(checks, read, self.check, locations)

    def _of_record(self, checks: _Checks, file: RecordFile, opened: ReadableFile, index: int) -> Iterator[Finding]:
        key = str(index)
        try:
            parts = read_record(file, opened, index, max_json_bytes=self._max_json_bytes)
            # Lines are parsed here too, unless they are too large: that is a finding of its own.
            is_large = any(isinstance(data, LargePart) for data in parts.values())
            if self.with_lines and file.decodes and not is_large:
                (offset,), _ = file.spans(np.array([index]))
                for line in LineBlock(b"".join(parts.values()), int(offset), 0, file.name).examine():
                    if line.fault is not None:
                        rule, expected = fault_of_line(line)
                        message = f"the line is not {expected}: {line.fault}"
                        yield Finding(rule, message, shard=file.name, key=key, offset=line.offset)
                        return
        except FormatError as error:
            rule = JsonlFiles.E403 if file.decodes else ColumnFiles.E414
            yield Finding(rule, error.message, shard=file.name, key=key, offset=error.offset)
            return
        # Nothing needs to be decoded in rows.
        check = self.check if file.decodes else getattr(self.check, "check_values", None)
        yield from self._of_sample(checks, ReadSample(shard=file.name, key=key, parts=parts), check)

    def _of_sample(
        self, checks: _Checks, sample: ReadSample, check: SampleCheck | None, locations: Sequence[PartLocation] = ()
    ) -> Iterator[Finding]:
        # Locations are of the parts of a tar, whose headers were checked for empty and missing parts.
        # Run the check, which may run code of the dataset.
        key, parts = sample.key, sample.parts
        try:
            faults = () if check is None else check(key, parts)
        except Exception as error:  # noqa: BLE001 - one sample must not hide the faults of all others
            faults = [(None, f"the check of this sample failed: {error_text(error)}")]
        # Report its faults, each with the rule that fits: a part that is missing, damaged, or too large.
        by_name = {part.name: part for part in locations} if faults else {}
        for part, message in faults:
            location = by_name.get(part or "")
            if location.size_bytes == 0 if location is not None else locations and part in self.required:
                continue  # reported with the headers
            rule = SampleFaults.E307 if part is None else SampleFaults.E302 if part in parts else SampleFaults.E301
            if isinstance(parts.get(part or ""), LargePart):
                rule = SampleFaults.W310
            elif isinstance(message, Caution):
                rule = SampleFaults.W312
            offset = (location or locations[0]).offset if locations else None
            yield Finding(rule, message, shard=sample.shard, key=key, part=part, offset=offset)
        # Then run the checks of the rules.
        for check_of_rule in checks:
            yield from check_of_rule(sample)
