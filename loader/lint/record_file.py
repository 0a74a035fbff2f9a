"""Lint a file of numbered samples: JSONL, tokens or Parquet."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator

import numpy as np

from ..errors import EnergonError, FormatError
from ..format.binidx.token_file import TokenFile
from ..format.documents.providers import format_of
from ..storage import Storage
from .jsonl import JsonlLint
from .report import LintProgress, LintReport
from .rule import Finding, LintRule, LintRules
from .shard import Shards
from .task import RunningLint

_SEQUENCES_AT_ONCE = 1 << 20

Step = tuple[int, int, Finding | None]
"""Bytes checked, bytes in all, and a finding."""


def lint_record_file(
    storage: Storage,
    name: str,
    *,
    level: str = "decode",
    max_findings: int | None = None,
    on_progress: Callable[[LintProgress], None] | None = None,
) -> LintReport:
    """Lint a file of numbered samples; every fault of the file is a finding.

    Args:
        storage: The folder of the file.
        name: Name of the file in it.
        level: ``headers`` checks the index or footer only; ``bytes`` and ``decode`` check every sample too.
        max_findings: Number of findings to stop at; None finds all.
        on_progress: Called with numbers of bytes.
    """
    started = time.perf_counter()
    kind, every_sample = format_of(name), level != "headers"
    lint: RunningLint
    if kind == "jsonl":
        lint = jsonl = JsonlLint(storage, name, max_findings=max_findings, on_progress=on_progress)
        jsonl.check(every_sample=every_sample)
        samples = jsonl.samples
    else:
        lint = RunningLint(workers=1, max_findings=max_findings, on_progress=on_progress)
        steps = (_lint_tokens if kind == "binidx" else _lint_rows)(storage, name, every_sample=every_sample)
        samples = _follow(lint, steps)
    return LintReport(
        findings=tuple(lint.findings),
        complete=lint.complete,
        shards=1,
        samples=samples,
        seconds=time.perf_counter() - started,
    )


def _follow(lint: RunningLint, steps: Generator[Step, None, int]) -> int:
    """Collect findings of steps until one is dropped; return the number of samples, 0 after an early stop."""
    while True:
        try:
            done, total, finding = next(steps)
        except StopIteration as end:
            return int(end.value)
        if finding is not None:
            lint.add([finding])
        if not lint.complete:
            return 0
        lint.report(done, total, "bytes")


def _lint_tokens(storage: Storage, name: str, *, every_sample: bool) -> Generator[Step, None, int]:
    """Check the index of a token file, and the range of each sequence; return the number of sequences."""
    try:
        file = TokenFile(storage, name)
    except FormatError as error:
        outside = error.shard == storage.path(name) and "sequence" in error.message
        rule = ColumnFiles.E412 if outside else ColumnFiles.E411
        yield 0, 1, Finding(rule, _in_one_line(error), shard=name)
        return 0
    except EnergonError as error:
        yield 0, 1, Finding(Shards.E109, error.message, shard=name)
        return 0
    count, total = len(file), file.header.size_bytes
    if not count:
        yield total, total, Finding(ColumnFiles.E416, "the index has no sequences", shard=name)
        return 0
    yield from _check_documents(file, total)
    if every_sample:
        used = 0
        for first in range(0, count, _SEQUENCES_AT_ONCE):
            numbers = np.arange(first, min(first + _SEQUENCES_AT_ONCE, count))
            try:
                start, size = file.spans(numbers)
            except FormatError as error:
                yield 0, total, Finding(ColumnFiles.E412, error.message, shard=name)
                return count
            used = max(used, int((start + size).max()))
            yield (first + len(numbers)) * total // count, total, None
        if used < file.size_bytes:
            found = f"{file.size_bytes - used:,} bytes after the last sequence; the index may be of an earlier file"
            yield total, total, Finding(ColumnFiles.W413, found, shard=name, offset=used)
    return count


def _check_documents(file: TokenFile, total: int) -> Iterator[Step]:
    starts = file.documents
    if len(starts) and not ((np.diff(starts) >= 0).all() and starts[0] >= 0 and starts[-1] <= len(file)):
        found = f"the document starts do not ascend from 0 to {len(file):,}"
        yield 0, total, Finding(ColumnFiles.E411, found, shard=file.name)


def _lint_rows(storage: Storage, name: str, *, every_sample: bool) -> Generator[Step, None, int]:
    """Check the footer of a Parquet file, and decode each row group; return the number of rows."""
    from ..format.parquet.row_file import RowFile
    from ..format.parquet.row_groups import CACHED_BYTES, RowGroups

    try:
        file = RowFile(storage, name)
    except FormatError as error:
        yield 0, 1, Finding(ColumnFiles.E414, _in_one_line(error), shard=name)
        return 0
    except EnergonError as error:
        yield 0, 1, Finding(Shards.E109, error.message, shard=name)
        return 0
    total = max(1, sum(file.group_bytes))
    if not len(file):
        yield total, total, Finding(ColumnFiles.E416, "the file has no rows", shard=name)
        return 0
    large = [number for number, size_bytes in enumerate(file.group_bytes) if size_bytes > CACHED_BYTES]
    if large:
        found = (
            f"row group {large[0]} has {file.group_bytes[large[0]]:,} bytes, the cache {CACHED_BYTES:,}; "
            "shuffled reading decodes it again for many samples: write smaller row groups"
        )
        yield 0, total, Finding(ColumnFiles.W415, found, shard=name)
    if every_sample:
        done = 0
        with RowGroups(storage, name) as groups:
            for number, size_bytes in enumerate(file.group_bytes):
                finding = None
                try:
                    groups.decode(number)
                except FormatError as error:
                    finding = Finding(ColumnFiles.E414, _in_one_line(error), shard=name)
                done += size_bytes
                yield done, total, finding
    return len(file)


def _in_one_line(error: FormatError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message


class ColumnFiles(LintRules):
    """The rules of token files and Parquet files."""

    title = "Token files and Parquet files"
    note = "`shard` is the name of the file."
    kinds = ("token files",)

    E411 = LintRule(
        "the index of a token file is missing or damaged",
        why="The positions of the sequences are unknown, so that no loader opens the file.",
        action="copy both files of the pair again",
        example="The `.idx` file is that of another program, or truncated.",
    )
    E412 = LintRule(
        "a sequence is outside of its token file",
        why="The sequence would have tokens that are not in the file.",
        action="copy both files of the pair again: one is truncated, or they do not belong together",
        example="The copy of the `.bin` file stopped halfway.",
    )
    W413 = LintRule(
        "bytes of a token file belong to no sequence",
        why="These tokens are never loaded.",
        action="check that the `.idx` file is not of an earlier `.bin` file",
        example="Tokens were appended to the `.bin` file, and the `.idx` file is the old one.",
    )
    E414 = LintRule(
        "a Parquet file is damaged",
        why="Rows of the file fail to load, or all do.",
        action="copy or write it again",
        example="A download stopped before the footer of the file.",
        kinds=("Parquet files", "folders of JSONL or Parquet files"),
    )
    W415 = LintRule(
        "a row group of a Parquet file is larger than the cache of decoded rows",
        why="Shuffled reading decodes the row group many times, so that loading is slow.",
        action="write smaller row groups: shuffled reading decodes this one many times",
        example="The file was written with one row group of 4 GB.",
        kinds=("Parquet files",),
    )
    E416 = LintRule(
        "a token file or Parquet file has no samples",
        why="A loader of the file stops with an error.",
        action="find the cause, or remove the file from the metadataset",
        example="A filter removed every row.",
        kinds=("token files", "Parquet files"),
    )
