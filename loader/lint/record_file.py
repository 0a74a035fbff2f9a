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
from .report import Finding, LintProgress, LintReport
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
        code = "E412" if outside else "E411"
        yield 0, 1, Finding(code=code, message=_in_one_line(error), shard=name)
        return 0
    except EnergonError as error:
        yield 0, 1, Finding(code="E109", message=error.message, shard=name)
        return 0
    count, total = len(file), file.header.size_bytes
    if not count:
        yield total, total, Finding(code="E416", message="the index has no sequences", shard=name)
        return 0
    yield from _check_documents(file, total)
    if every_sample:
        used = 0
        for first in range(0, count, _SEQUENCES_AT_ONCE):
            numbers = np.arange(first, min(first + _SEQUENCES_AT_ONCE, count))
            try:
                start, size = file.spans(numbers)
            except FormatError as error:
                yield 0, total, Finding(code="E412", message=error.message, shard=name)
                return count
            used = max(used, int((start + size).max()))
            yield (first + len(numbers)) * total // count, total, None
        if used < file.size_bytes:
            found = f"{file.size_bytes - used:,} bytes after the last sequence; the index may be of an earlier file"
            yield total, total, Finding(code="W413", message=found, shard=name, offset=used)
    return count


def _check_documents(file: TokenFile, total: int) -> Iterator[Step]:
    starts = file.documents
    if len(starts) and not ((np.diff(starts) >= 0).all() and starts[0] >= 0 and starts[-1] <= len(file)):
        found = f"the document starts do not ascend from 0 to {len(file):,}"
        yield 0, total, Finding(code="E411", message=found, shard=file.name)


def _lint_rows(storage: Storage, name: str, *, every_sample: bool) -> Generator[Step, None, int]:
    """Check the footer of a Parquet file, and decode each row group; return the number of rows."""
    from ..format.parquet.row_file import RowFile
    from ..format.parquet.row_groups import CACHED_BYTES, RowGroups

    try:
        file = RowFile(storage, name)
    except FormatError as error:
        yield 0, 1, Finding(code="E414", message=_in_one_line(error), shard=name)
        return 0
    except EnergonError as error:
        yield 0, 1, Finding(code="E109", message=error.message, shard=name)
        return 0
    total = max(1, sum(file.group_bytes))
    if not len(file):
        yield total, total, Finding(code="E416", message="the file has no rows", shard=name)
        return 0
    large = [number for number, size_bytes in enumerate(file.group_bytes) if size_bytes > CACHED_BYTES]
    if large:
        found = (
            f"row group {large[0]} has {file.group_bytes[large[0]]:,} bytes, the cache {CACHED_BYTES:,}; "
            "shuffled reading decodes it again for many samples: write smaller row groups"
        )
        yield 0, total, Finding(code="W415", message=found, shard=name)
    if every_sample:
        done = 0
        with RowGroups(storage, name) as groups:
            for number, size_bytes in enumerate(file.group_bytes):
                finding = None
                try:
                    groups.decode(number)
                except FormatError as error:
                    finding = Finding(code="E414", message=_in_one_line(error), shard=name)
                done += size_bytes
                yield done, total, finding
    return len(file)


def _in_one_line(error: FormatError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message
