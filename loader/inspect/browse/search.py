"""Search a dataset: by the beginning of keys, a text, a condition, or findings of lint.

All but keys are searched in worker processes, batch by batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np

from ...dataset.dataset import Dataset
from ...dataset.query import (
    Condition,
    DatasetValues,
    SampleQuery,
    column_or_values,
    find_samples,
    is_indexed,
    only_value,
)
from ...dataset.tar import tar_index
from ...errors import EnergonError
from ...format.dataset_ref import DatasetRef
from ...format.nv_meta import FOLDER
from ...lint.contents import SampleLint
from ...lint.metadata import readable_config
from ...lint.rule import Finding, ScannedShard, checks_of
from ...lint.samples import SampleFaults, required_parts
from ...parts.large_parts import CHECKED_JSON_BYTES
from ...samples.building.check import DecodeCheck
from ...samples.building.dataset_code import DatasetCode
from ..stats import StatsRequest, collect_stats, compute_values, estimate_values, value_names
from .dataset import BrowsedDataset, DatasetAddress, media_type
from .thumbnails import open_dataset

_KEYS_AT_ONCE = 1 << 16  # samples of a step of a search by key
_SAMPLES_AT_ONCE = 200  # of a task in a worker process
_BATCHES_AHEAD = 8  # tasks that wait for workers: a search that is stopped loses few
_MAX_TEXT_BYTES = 1 << 20  # of a part that is searched
_MAX_FINDING = 300  # characters of a note

SearchKind = Literal["keys", "texts", "where", "findings"]
SEARCH_KINDS: tuple[SearchKind, ...] = ("keys", "texts", "where", "findings")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search.

    Attributes:
        text: The beginning of a key; a text of any case; a condition such as ``width < 64 and size("jpg") > 9000``;
            or the beginning of a rule's code, such as ``E3``.
        limit: The search ends after so many samples are found.
    """

    text: str
    kind: SearchKind = "keys"
    ranges: Sequence[range]
    limit: int = 1000


class SearchBatch(NamedTuple):
    """A step of a search."""

    found: list[int]
    searched: int
    notes: dict[int, str]  # number of a sample → why it was found


Submit = Callable[..., "Future[dict[int, str]]"]


def needs_scan(folder: Dataset, condition: str) -> bool:
    """Return True if a condition has names that are no columns, so that samples have to be read."""
    return not all(is_indexed(folder, name) for name in Condition(condition).columns)


def search_samples(
    dataset: BrowsedDataset, request: SearchRequest, submit: Submit
) -> Generator[SearchBatch, None, None]:
    """Yield the samples that match, batch by batch, so that a search can be shown and stopped while it runs.

    Samples that cannot be read do not match.
    """
    if request.kind == "where":
        _check_names(dataset.folder, Condition(request.text))
    searched, left = 0, request.limit
    for batch, matches in _results(dataset, request, submit):
        searched += len(batch)
        kept = dict(islice(matches.items(), left))
        left -= len(kept)
        yield SearchBatch(list(kept), searched, {sample: note for sample, note in kept.items() if note})
        if not left:
            return


def _check_names(folder: Dataset, condition: Condition) -> None:
    """Check that the names of a condition mean one value each; some samples have those that are not given whole."""
    # Names that are given whole are checked without reading samples; others by some samples.
    every = np.arange(len(folder.index))
    DatasetValues(folder, condition.columns, every[:0], compute_values)
    for name in condition.columns:
        _, meant = column_or_values(folder, name)
        if not is_indexed(folder, name) and name not in map(str, meant):
            existing = estimate_values(folder, meant, every, workers=1).existing
            only_value(name, existing, at=folder.path, known=() if existing else value_names(folder, every))


def _results(dataset: BrowsedDataset, request: SearchRequest, submit: Submit) -> Iterator[tuple[range, dict[int, str]]]:
    # Keys are in the index, so this process searches them.
    if request.kind == "keys":
        for some in request.ranges:
            for start in range(some.start, some.stop, _KEYS_AT_ONCE):
                batch = range(start, min(start + _KEYS_AT_ONCE, some.stop))
                yield batch, dict.fromkeys(dataset.folder.index.starting(batch, request.text), "")
        return
    # Other searches read samples in workers, a few tasks ahead of what is shown.
    batches = _batches(dataset, request.ranges)
    ahead: deque[tuple[range, Future[dict[int, str]]]] = deque()
    try:
        while True:
            for batch in islice(batches, _BATCHES_AHEAD - len(ahead)):
                ahead.append((batch, submit(_search, dataset.address, request.kind, request.text, batch)))
            if not ahead:
                return
            batch, running = ahead.popleft()
            yield batch, running.result()
    finally:
        for _, running in ahead:
            running.cancel()


def _batches(dataset: BrowsedDataset, ranges: Sequence[range]) -> Iterator[range]:
    """Yield ranges of samples that are in one shard each."""
    ends = np.array([shard.first_sample + shard.samples for shard in dataset.folder.index.shards], np.int64)
    for some in ranges:
        start = some.start
        while start < some.stop:
            end = min(int(ends[np.searchsorted(ends, start, side="right")]), start + _SAMPLES_AT_ONCE, some.stop)
            yield range(start, end)
            start = end


# ------------------------------------------------------------------------------------------ in a worker process


def _search(address: DatasetAddress, kind: SearchKind, text: str, batch: range) -> dict[int, str]:
    dataset = open_dataset(address)
    if kind == "texts":
        wanted = text.casefold()
        return {sample: "" for sample in batch if _has_text(dataset, sample, wanted)}
    if kind == "findings":
        notes: dict[int, str] = {}
        for finding in lint_samples(address, batch):
            if finding.code.startswith(text.strip().upper()):
                notes.setdefault(finding.number, f"{finding.code}: {finding.message}"[:_MAX_FINDING])
        return notes
    query = SampleQuery(where=text, compute=compute_values)
    return dict.fromkeys(find_samples(dataset.folder, query, within=batch).tolist(), "")


def _has_text(dataset: BrowsedDataset, sample: int, wanted: str) -> bool:
    try:
        return any(
            wanted in dataset.read(sample, part, 0, _MAX_TEXT_BYTES).decode("utf-8", "replace").casefold()
            for part in dataset.parts(sample)
            if media_type(part.name).startswith("text/")
        )
    except EnergonError:
        return False


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
        numbers: Numbers of the samples in the dataset, ascending.
    """
    folder = open_dataset(address).folder
    config = readable_config(folder)
    limit = CHECKED_JSON_BYTES
    check = DecodeCheck(
        config,
        DatasetCode(folder.storage.path(FOLDER), trust_code=False),
        decode_media=False,
        max_json_bytes=limit,
    )
    required = frozenset(part for parts in required_parts(config).values() for part in parts)
    lint = SampleLint(check, required)
    sample_findings: list[SampleFinding] = []
    for sample in numbers:
        shard = folder.index.shard_of(sample)
        findings = list(lint.findings(folder, shard, [sample]))
        # Lint checks headers by shard, so their findings are kept for the next sample.
        if folder.format == "webdataset":
            findings = _header_findings(address, shard.name).get(folder.index.key(sample), []) + findings
        sample_findings += [SampleFinding(sample, each.code, each.part, each.message) for each in findings]
    return sample_findings


@lru_cache(maxsize=2)
def _header_findings(address: DatasetAddress, shard: str) -> dict[str, list[Finding]]:
    folder = open_dataset(address).folder
    entry = next(candidate for candidate in tar_index(folder).shards if candidate.name == shard)
    by_key: dict[str, list[Finding]] = {}
    headers, config = tar_index(folder).shard_index(entry), readable_config(folder)
    scanned = ScannedShard(storage=folder.storage, info=entry.info, headers=headers, config=config, entry=entry)
    findings = (finding for check in checks_of([SampleFaults], "tar shards", "of_shard") for finding in check(scanned))
    for finding in findings:
        by_key.setdefault(finding.key or "", []).append(finding)
    return by_key


def statistics(ref: DatasetRef, split_part: str | None, sample: int) -> dict[str, Any]:
    """Return the statistics of a dataset as a JSON document; ``term`` names a value in a condition, or is None.

    Args:
        split_part: Only samples of this split part; None for all.
        sample: Number of random samples that are read; values in columns are complete.
    """
    query = SampleQuery(split_parts=() if split_part is None else [split_part])
    document = collect_stats(StatsRequest(ref=ref, query=query, sample=sample)).document()
    for summary in (*document["numbers"].values(), *document["texts"].values()):
        summary["term"] = summary.pop("name")
    return document
