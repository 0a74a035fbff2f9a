"""Lint a file of numbered samples: JSONL, tokens or Parquet."""

from __future__ import annotations

import numpy as np

from ..errors import EnergonError, FormatError
from ..format.documents.providers import format_of
from ..format.records.token_file import TokenFile
from ..storage import Storage
from .jsonl import JsonlCheck
from .report import LintReport
from .rule import Finding, Kind, LintRule, LintRules
from .running import OnProgress, RunningLint
from .shard import Shards

_SEQUENCES_AT_ONCE = 1 << 20
_PARQUET: tuple[Kind, ...] = ("Parquet files", "folders of JSONL or Parquet files")


def lint_record_file(
    storage: Storage,
    name: str,
    *,
    level: str = "decode",
    max_findings: int | None = None,
    on_progress: OnProgress | None = None,
) -> LintReport:
    """Lint a file of numbered samples; every fault of the file is a finding.

    Args:
        storage: The folder of the file.
        name: Name of the file in it.
        level: ``headers`` checks the index or footer only; ``bytes`` and ``decode`` check every sample too.
        max_findings: Number of findings to stop at; None finds all.
        on_progress: Called with numbers of bytes.
    """
    lint = RunningLint(max_findings=max_findings, on_progress=on_progress)
    check_record_file(lint, storage, name, level=level)
    return lint.report()


def check_record_file(lint: RunningLint, storage: Storage, name: str, *, level: str) -> None:
    """Add the findings about a file of numbered samples to a lint; see :func:`lint_record_file`."""
    lint.shards = 1
    kind, every_sample = format_of(name), level != "headers"
    try:
        if kind == "jsonl":
            JsonlCheck(lint, storage, name).run(every_sample=every_sample)
        else:
            (_check_tokens if kind == "binidx" else _check_rows)(lint, storage, name, every_sample=every_sample)
    except EnergonError as error:
        lint.add(Finding(Shards.E109, error.message, shard=name))


def _check_tokens(lint: RunningLint, storage: Storage, name: str, *, every_sample: bool) -> None:
    """Check the index of a token file, and the range of each sequence."""

    def add(rule: LintRule, message: str, offset: int | None = None) -> None:
        lint.add(Finding(rule, message, shard=name, offset=offset))

    try:
        file = TokenFile(storage, name)
    except FormatError as error:
        outside = error.shard == storage.path(name) and "sequence" in error.message
        add(ColumnFiles.E412 if outside else ColumnFiles.E411, _in_one_line(error))
        return
    count, total = len(file), file.header.size_bytes
    if not count:
        add(ColumnFiles.E416, "the index has no sequences")
        return
    lint.samples = count
    # The documents are ranges of sequences, in their order.
    starts = file.documents
    if len(starts) and not ((np.diff(starts) >= 0).all() and starts[0] >= 0 and starts[-1] <= len(file)):
        add(ColumnFiles.E411, f"the document starts do not ascend from 0 to {len(file):,}")
    # The sequences are ranges of the file, and fill it.
    used = 0
    for first in range(0, count if every_sample else 0, _SEQUENCES_AT_ONCE):
        numbers = np.arange(first, min(first + _SEQUENCES_AT_ONCE, count))
        try:
            start, size = file.spans(numbers)
        except FormatError as error:
            add(ColumnFiles.E412, error.message)
            return
        used = max(used, int((start + size).max()))
        lint.progress((first + len(numbers)) * total // count, total, "bytes")
    if every_sample and used < file.size_bytes:
        rest = f"{file.size_bytes - used:,} bytes after the last sequence; the index may be of an earlier file"
        add(ColumnFiles.W413, rest, used)


def _check_rows(lint: RunningLint, storage: Storage, name: str, *, every_sample: bool) -> None:
    """Check the footer of a Parquet file, and decode each row group."""
    from ..format.records.row_file import CACHED_BYTES, RowFile, RowGroups

    def add(rule: LintRule, message: str) -> None:
        lint.add(Finding(rule, message, shard=name))

    try:
        file = RowFile(storage, name)
    except FormatError as error:
        add(ColumnFiles.E414, _in_one_line(error))
        return
    if not len(file):
        add(ColumnFiles.E416, "the file has no rows")
        return
    lint.samples = len(file)
    # Groups that do not fit in the cache.
    large = [number for number, size_bytes in enumerate(file.group_bytes) if size_bytes > CACHED_BYTES]
    if large:
        message = (
            f"row group {large[0]} has {file.group_bytes[large[0]]:,} bytes, the cache {CACHED_BYTES:,}; "
            "shuffled reading decodes it again for many samples: write smaller row groups"
        )
        add(ColumnFiles.W415, message)
    if not every_sample:
        return
    # Groups that do not decode.
    done, total = 0, max(1, sum(file.group_bytes))
    with RowGroups(storage, name) as groups:
        for number, size_bytes in enumerate(file.group_bytes):
            try:
                groups.decode(number)
            except FormatError as error:
                add(ColumnFiles.E414, _in_one_line(error))
            if not lint.complete:
                break
            done += size_bytes
            lint.progress(done, total, "bytes")


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
        kinds=_PARQUET,
    )
    W415 = LintRule(
        "a row group of a Parquet file is larger than the cache of decoded rows",
        why="Shuffled reading decodes the row group many times, so that loading is slow.",
        action="write smaller row groups: shuffled reading decodes this one many times",
        example="The file was written with one row group of 4 GB.",
        kinds=_PARQUET,
    )
    E416 = LintRule(
        "a token file or Parquet file has no samples",
        why="A loader of the file stops with an error.",
        action="find the cause, or remove the file from the metadataset",
        example="A filter removed every row.",
        kinds=("token files", *_PARQUET),
    )
