"""Lint samples of a dataset one by one, for ``energon browse``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from ...accounting.large_parts import CHECKED_JSON_BYTES
from ...errors import ConfigError
from ...format.dataset_folder import DatasetFolder
from ...format.documents.dataset_config import DatasetConfig
from ...format.lint.record_folder import lint_record, value_check
from ...format.lint.report import Finding
from ...format.lint.samples import SampleLint
from ...format.lint.shard import check_parts, required_parts
from ...format.records.folder_index import RecordIndex
from ...format.records.record_file import RecordReader
from ...samples.building.check import DecodeCheck
from ...storage import EPath
from .dataset import DatasetAddress
from .workers import open_dataset


class SampleFinding(NamedTuple):
    """A finding about a sample: its number, the rule's code, the part or None, and details."""

    number: int
    code: str
    part: str | None
    message: str


def lint_samples(address: DatasetAddress, numbers: Sequence[int]) -> list[SampleFinding]:
    """Return the findings that ``energon lint`` has about samples of a dataset, in the order of their numbers.

    Code of the dataset does not run, and sound and video are not decoded.

    Args:
        address: The dataset.
        numbers: Numbers of the samples in the dataset, ascending.

    Raises:
        EnergonError: The dataset cannot be opened.
    """
    folder = open_dataset(address).folder
    config = _readable_config(folder)
    limit = CHECKED_JSON_BYTES
    check = DecodeCheck(config, EPath(folder.meta_folder), trust_code=False, decode_media=False, max_json_bytes=limit)
    if folder.records is not None:
        return list(_record_findings(folder.records, check, numbers))
    required = frozenset(part for parts in required_parts(config).values() for part in parts)
    lint = SampleLint(check, required)
    found: list[SampleFinding] = []
    index = folder.tar_index
    for number in numbers:
        shard, key = index.shard_of(number), index.key(number)
        of_headers = _header_findings(address, shard.name).get(key, ())
        of_content = lint.findings(folder.storage, index, shard, [number])
        found += [SampleFinding(number, one.code, one.part, one.message) for one in (*of_headers, *of_content)]
    return found


def _record_findings(records: RecordIndex, check: DecodeCheck, numbers: Sequence[int]) -> Iterator[SampleFinding]:
    for shard, some in groupby(numbers, lambda number: records.place(number)[0]):
        file = records.file(shard)
        of_values = value_check(file, check)
        with closing(RecordReader(file)) as reader:
            for number in some:
                for one in lint_record(reader, records.place(number)[1], of_values):
                    yield SampleFinding(number, one.code, one.part, one.message)


@lru_cache(maxsize=2)
def _header_findings(address: DatasetAddress, shard: str) -> dict[str, list[Finding]]:
    """Return the findings about the headers of one shard, as it is indexed, by key."""
    folder = open_dataset(address).folder
    entry = next(one for one in folder.tar_index.shards if one.name == shard)
    found: dict[str, list[Finding]] = {}
    for finding in check_parts(shard, folder.tar_index.shard_index(entry), _readable_config(folder)):
        found.setdefault(finding.key or "", []).append(finding)
    return found


def _readable_config(folder: DatasetFolder) -> DatasetConfig | None:
    try:
        return folder.config
    except ConfigError:
        return None  # energon lint reports it
