"""Lint a file of numbered samples: JSONL, tokens or Parquet."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import numpy.typing as npt

from ..errors import EnergonError, FormatError, plural
from ..format.data_kind import Kind, data_kind
from ..format.jsonl.index import IDX_SUFFIX, JsonlIndex, find_jsonl_index
from ..format.jsonl.lines import BYTE_ORDER_MARK, ExaminedLine, LineBlock, line_blocks
from ..format.records.token_file import TokenFile
from ..parts.large_parts import CHECKED_JSON_BYTES
from ..storage import ReadableFile, Storage
from .rule import Finding, LintRule, LintRules
from .running import RunningLint
from .samples import SampleFaults
from .shard import unreadable

_OFFSETS_AT_ONCE = 1 << 20  # 8 MB of the index


# JSONL files.


class JsonlCheck:
    """A check of a JSONL file.

    Args:
        lint: The lint that takes the findings, and counts the samples that the index or the lines have.
    """

    def __init__(self, lint: RunningLint, storage: Storage, name: str) -> None:
        self._lint = lint
        self._storage = storage
        self._name = name
        self._path = storage.path(name)
        self._blank = 0  # number of blank lines
        self._first_blank = 0  # offset

    def run(self, *, every_sample: bool) -> None:
        """Check the index, then the lines."""
        try:
            with self._storage.open(self._name) as file:
                if not file.size_bytes:
                    self._add(JsonlFiles.E407, "this file is empty; expected one JSON object a line")
                    return
                # Without an index, the lines are checked alone, because a file with a wrong one does not open.
                index = self._open_index()
                if index is not None:
                    self._lint.samples = len(index)
                if every_sample or not self._storage.exists(self._name + IDX_SUFFIX):
                    self._check_lines(file, None if index is None else index.offsets)
                elif index is not None:
                    self._check_order(index.offsets)
        finally:
            self._lint.findings.sort(key=lambda finding: finding.offset or 0)

    def _add(self, rule: LintRule, message: str, offset: int | None = None) -> None:
        self._lint.add(Finding(rule, message, shard=self._name, offset=offset))

    # ---------------------------------------------------------------------------------------------------- the index

    def _open_index(self) -> JsonlIndex | None:
        try:
            return find_jsonl_index(self._storage, self._name)
        except FormatError as error:
            is_stale = self._storage.exists(self._name + IDX_SUFFIX) and error.shard == self._path
            self._add(JsonlFiles.E402 if is_stale else JsonlFiles.E401, f"{error.message}; {error.hint}")
            return None

    def _check_order(self, offsets: npt.NDArray[np.uint64]) -> None:
        # Offsets have to ascend, which can be seen without reading the file.
        for start in range(0, len(offsets), _OFFSETS_AT_ONCE):
            some = offsets[start : start + _OFFSETS_AT_ONCE + 1]
            wrong = np.flatnonzero(some[1:] <= some[:-1])
            if len(wrong):
                sample = start + int(wrong[0])
                first, second = int(offsets[sample]), int(offsets[sample + 1])
                message = f"the index has sample {sample:,} at byte {first:,}, and the next at byte {second:,}"
                self._add_stale(message, first)
                return

    def _add_stale(self, message: str, offset: int) -> None:
        self._add(JsonlFiles.E402, f"{message}; run: energon prepare {self._path}", offset)

    # ---------------------------------------------------------------------------------------------------- the lines

    def _check_lines(self, file: ReadableFile, offsets: npt.NDArray[np.uint64] | None) -> None:
        # Compare the lines with the index, block by block.
        samples = 0
        try:
            for block in line_blocks(file, self._path):
                # Faults of lines come first, and a comparison with the index only while it agrees.
                starts = self._starts(block, samples)
                if block.is_cut:
                    size_bytes = block.stop - block.offset
                    message = (
                        f"the line has {size_bytes:,} bytes, more than {CHECKED_JSON_BYTES:,}, so it is not parsed"
                    )
                    self._add(SampleFaults.W310, message, block.offset)
                if offsets is not None and not self._are_indexed(starts, offsets, samples):
                    offsets = None  # all later offsets would differ too
                samples += len(starts)
                self._lint.progress(block.stop, file.size_bytes, "bytes")
                if not self._lint.complete:
                    break
        except FormatError as error:
            self._add(JsonlFiles.E403, error.message, error.offset)
            self._lint.complete = False  # the rest of the file was not read
        # Report what concerns the file as a whole.
        self._lint.samples = samples
        if file.read_at(0, len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK:
            self._add(JsonlFiles.W406, "this loader ignores it; other tools may fail", 0)
        if not self._lint.complete:
            return
        if not samples:
            self._add(JsonlFiles.E407, "this file has only blank lines; expected one JSON object a line")
        elif offsets is not None and samples != len(offsets) - 1:
            self._add_stale(
                f"the index has {plural(len(offsets) - 1, 'sample')}, the file {samples:,}", int(offsets[samples])
            )
        if self._blank:
            self._add(JsonlFiles.W405, f"{self._blank:,} in this file, skipped; the first is here", self._first_blank)

    def _starts(self, block: LineBlock, samples: int) -> npt.NDArray[np.uint64]:
        """Return the offsets of the samples of a block; faults of its lines are findings."""
        starts = None
        # Check all lines at once; only a block with a fault is examined line by line.
        with suppress(FormatError):  # the wrong lines are found below
            block.check_encoding()
            starts = block.starts()
        if starts is None:
            lines = list(block.examine())
            for line in lines:
                if line.fault is not None:
                    rule, expected = fault_of_line(line)
                    self._add(rule, f"line {line.number:,} is not {expected}: {line.fault}", line.offset)
            starts = np.array([line.offset for line in lines], np.uint64)
        # Lines that are no samples are blank.
        blank = block.line_count - len(starts)
        if blank and not self._blank:
            self._first_blank = block.first_blank_line()
        self._blank += blank
        if not samples and len(starts):
            starts[0] = 0  # blank lines before the first sample belong to it
        return starts

    def _are_indexed(self, starts: npt.NDArray[np.uint64], offsets: npt.NDArray[np.uint64], samples: int) -> bool:
        # Report the first difference: one changed line moves all later offsets.
        expected = offsets[:-1][samples : samples + len(starts)]
        differ = np.flatnonzero(starts[: len(expected)] != expected)
        if len(differ):
            first = int(differ[0])
            message = f"the index has sample {samples + first:,} at byte {int(expected[first]):,}; the file has it here"
            self._add_stale(message, int(starts[first]))
            return False
        # Lines were appended since the index was written.
        if len(expected) < len(starts):
            message = f"the index has {plural(len(offsets) - 1, 'sample')}, and there are more from here"
            self._add_stale(message, int(starts[len(expected)]))
            return False
        return True


def fault_of_line(line: ExaminedLine) -> tuple[LintRule, str]:
    """Return the rule that a faulty line violates, and what was expected."""
    return (JsonlFiles.E403, "one JSON object") if line.is_utf8 else (JsonlFiles.E404, "UTF-8")


class JsonlFiles(LintRules):
    """The rules of JSONL files."""

    title = "JSONL files"
    note = "`shard` is the name of the file, and `offset` the line's position in bytes."
    kinds = ("JSONL files", "folders of JSONL or Parquet files")

    E401 = LintRule(
        "the index of a JSONL file is damaged",
        why="The positions of the lines are unknown, so that no loader opens the file.",
        action="`energon prepare` with the file",
        example="A full disk cut the `.idx` file.",
    )
    E402 = LintRule(
        "the index of a JSONL file is stale: the file has changed",
        why="Loaders would read wrong lines, or none.",
        action="`energon prepare` with the file; until then wrong lines, or none, are read",
        example="Lines were appended after the file was prepared.",
    )
    E403 = LintRule(
        "a line is not one JSON object",
        why="The sample fails to load. Training logs an error and skips it.",
        action="correct or remove it; JSON over several lines: `jq -c .` converts it",
        example="A JSON document was written with indents, over several lines.",
    )
    E404 = LintRule(
        "a line is not UTF-8",
        why="The sample fails to load. Training logs an error and skips it.",
        action="convert the file: `iconv -f LATIN1 -t UTF-8`",
        example="A file of an old Windows program has the byte E9 for é.",
    )
    W405 = LintRule(
        "there are blank lines",
        why="Nothing is lost, but the number of samples is smaller than the number of lines.",
        action="none: they are not samples",
        example="The file ends with two line breaks.",
    )
    W406 = LintRule(
        "the file begins with a byte order mark",
        why="Nothing is lost here, but other tools refuse the first line.",
        action="none here; remove it if other tools read the file",
        example="An editor on Windows saved the file as UTF-8 with BOM.",
    )
    E407 = LintRule(
        "a JSONL file has no samples",
        why="A loader of the file stops with an error.",
        action="find the cause, or remove the file from the metadataset",
        example="A filter removed every line.",
    )


_SEQUENCES_AT_ONCE = 1 << 20  # sequences, whose positions take 16 MB
_PARQUET: tuple[Kind, ...] = ("Parquet files", "folders of JSONL or Parquet files")


# Token files and Parquet files, and the dispatch by kind.


def check_record_file(lint: RunningLint, storage: Storage, name: str, *, level: str) -> None:
    """Add the findings about a file of numbered samples to a lint; every fault of the file is a finding.

    Args:
        level: ``headers`` checks the index or footer only; ``bytes`` and ``decode`` check every sample too.
    """
    lint.shards = 1
    kind, every_sample = data_kind(name).format, level != "headers"
    try:
        if kind == "jsonl":
            JsonlCheck(lint, storage, name).run(every_sample=every_sample)
        else:
            (_check_tokens if kind == "binidx" else _check_rows)(lint, storage, name, every_sample=every_sample)
    except EnergonError as error:
        lint.add(unreadable(error, name))


def _check_tokens(lint: RunningLint, storage: Storage, name: str, *, every_sample: bool) -> None:
    def add(rule: LintRule, message: str, offset: int | None = None) -> None:
        lint.add(Finding(rule, message, shard=name, offset=offset))

    # An index that cannot be read, and one with wrong ranges, are different faults.
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
    from ..format.records.row_file import CACHED_BYTES, RowFile, RowGroups

    def add(rule: LintRule, message: str) -> None:
        lint.add(Finding(rule, message, shard=name))

    # Opening reads the footer.
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
    large = [group for group, size_bytes in enumerate(file.group_bytes) if size_bytes > CACHED_BYTES]
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
        for group, size_bytes in enumerate(file.group_bytes):
            try:
                groups.decode(group)
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
        example="Another program wrote the `.idx` file, or it is truncated.",
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
