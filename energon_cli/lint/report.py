"""Output of ``energon lint``: one line per finding and a summary, or one JSON object."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from loader.format.documents import is_metadataset, is_record_file
from loader.inspect import ExcludedSamples, LintRequest, is_only_media_folder
from loader.storage import open_storage

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from loader.format.lint import Finding, LintReport

__all__ = ["lint_document", "show_lint"]


def lint_document(path: str, level: str, report: LintReport, fixed: int | None) -> dict[str, Any]:
    """Return the ``--json`` document of a check; its keys are stable."""
    return {
        "path": path,
        "level": level,
        "complete": report.complete,
        "datasets": report.datasets,
        "shards": report.shards,
        "samples": report.samples,
        "seconds": round(report.seconds, 3),
        "errors": report.errors,
        "warnings": len(report.findings) - report.errors,
        "fixed": fixed,
        "findings": [
            {
                "severity": finding.severity,
                "code": finding.code,
                "message": finding.message,
                "dataset": finding.dataset,
                "shard": finding.shard,
                "key": finding.key,
                "part": finding.part,
                "offset": finding.offset,
            }
            for finding in report.findings
        ],
    }


def show_lint(console: Console, request: LintRequest, report: LintReport, fixed: ExcludedSamples | None) -> None:
    """Print the findings and a summary."""
    from loader.inspect import plural

    from ..console import escape_controls

    for finding, more in _grouped(report.findings):
        line = _line(finding)
        if more:
            line.append(f" (and {plural(more, 'shard')} more)")
        console.print(line, soft_wrap=True)
    checked = f"{_amount(request.path, report)}, level {request.level}"
    if not report.findings:
        console.print(f"no findings: {checked} ({report.seconds:.1f} s)", style="green", soft_wrap=True)
        return
    counts = f"{plural(report.errors, 'error')}, {plural(len(report.findings) - report.errors, 'warning')}"
    style = "bold red" if report.errors else "yellow"
    console.print(f"{counts}: {checked} ({report.seconds:.1f} s)", style=style, soft_wrap=True)
    if not report.complete:
        stopped = request.max_findings is not None and len(report.findings) >= request.max_findings
        reason = "stopped at --max-findings" if stopped else "some samples were not checked because of errors"
        console.print(f"{reason}; there may be more findings", soft_wrap=True)
    if fixed is not None:
        console.print(
            f"excluded {plural(fixed.samples, 'sample')} in {escape_controls(fixed.file)}; "
            "run lint again to list the remaining findings",
            soft_wrap=True,
        )
        return
    broken: dict[str, set[tuple[str | None, str | None]]] = {}
    for finding in report.findings:
        if finding.is_sample:
            broken.setdefault(finding.dataset or request.path, set()).add((finding.shard, finding.key))
    for path, samples in broken.items():
        advice = (
            f"to exclude {plural(len(samples), 'sample')} from training: energon lint {escape_controls(path)} --fix"
        )
        console.print(advice, soft_wrap=True)


def _amount(path: str, report: LintReport) -> str:
    from loader.inspect import plural

    samples = plural(report.samples, "sample")
    if is_record_file(path):
        return samples
    if is_only_media_folder(open_storage(path)):
        return plural(report.samples, "file")
    where = f"{samples} in {plural(report.shards, 'shard')}"
    return f"{where} of {plural(report.datasets, 'dataset')}" if is_metadataset(path) else where


def _grouped(findings: Sequence[Finding]) -> list[tuple[Finding, int]]:
    """Merge warnings that repeat for many shards, such as changed times after copying; keep each error separate."""
    first: dict[tuple[str | None, str, str], int] = {}
    groups: list[tuple[Finding, int]] = []
    for finding in findings:
        identity = (finding.dataset, finding.code, finding.message)
        if finding.severity == "warning" and finding.key is None and identity in first:
            shown, more = groups[first[identity]]
            groups[first[identity]] = (shown, more + 1)
            continue
        first.setdefault(identity, len(groups))
        groups.append((finding, 0))
    return groups


def _line(finding: Finding) -> Text:
    """Format a finding as one line: severity, code, location, message."""
    from rich.text import Text

    from ..console import escape_controls

    where = finding.shard or ""
    if finding.dataset is not None:
        where = finding.dataset if is_record_file(finding.dataset) else os.path.join(finding.dataset, where)
    if finding.key is not None:
        where += f"/{finding.key}"
    if finding.part is not None:
        where += f" [{finding.part}]"
    if finding.offset is not None:
        where += f" at byte {finding.offset}"
    line = Text()
    line.append(f"{finding.severity:<7} {finding.code}", style="red" if finding.severity == "error" else "yellow")
    if where:
        line.append(f"  {escape_controls(where)}", style="bold")
    line.append(f": {escape_controls(finding.message)}")
    return line
