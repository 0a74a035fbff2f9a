"""``energon lint``: everything that is wrong with a dataset, and an exit code that tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .command import energon_command
from .cores import usable_cores
from .dataset_path import check_path, is_jsonl

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from loader.format.dataset_config import DatasetConfig
    from loader.format.findings import Finding
    from loader.format.lint import LintReport, SampleCheck

__all__ = ["lint"]

_EXAMPLES = (
    ("Check everything, decoding every sample", "energon lint /data/coco"),
    ("Check headers and the index only, in seconds", "energon lint /data/coco --level headers"),
    ("Leave broken samples out of training", "energon lint /data/coco --fix"),
    ("For a script", "energon lint /data/coco --json --max-findings 100"),
)


@energon_command("lint", examples=_EXAMPLES, short_help="Check a dataset and report everything wrong with it.")
@click.argument("path")
@click.option(
    "--level",
    type=click.Choice(["headers", "bytes", "decode"]),
    default="decode",
    show_default=True,
    help="Read headers only, or every byte, or decode every part too.",
)
@click.option("--parallel", metavar="N", type=click.IntRange(min=1), help="Worker processes (one per core).")
@click.option("--split-parts", metavar="A,B", help="Only shards of these split parts.")
@click.option("--fix", is_flag=True, help="Add broken and incomplete samples to 'exclude' of the split.")
@click.option("--max-findings", metavar="N", type=click.IntRange(min=1), help="Stop at this many findings.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--progress/--no-progress", default=True, help="Show a progress bar on a terminal.")
@click.option(
    "--dataset-config", metavar="NAME", default="dataset.yaml", show_default=True, help="Its name in .nv-meta."
)
@click.option("--split-config", metavar="NAME", default="split.yaml", show_default=True, help="Its name in .nv-meta.")
@click.option(
    "--trust-code", is_flag=True, envvar="ENERGON_TRUST_CODE", help="Run Python files that the dataset brings along."
)
def lint(
    path: str,
    *,
    level: str,
    parallel: int | None,
    split_parts: str | None,
    fix: bool,
    max_findings: int | None,
    as_json: bool,
    progress: bool,
    dataset_config: str,
    split_config: str,
    trust_code: bool,
) -> None:
    """Check the dataset at PATH against its index, its split and its dataset.yaml, to the last byte.

    Every finding names its shard, key, part and byte offset. Exits 1 if there is an error, or if it stopped
    early; 0 if there are only warnings or nothing at all.
    """
    check_path(path)
    if is_jsonl(path):
        raise click.UsageError(f"lint checks folders of shards; energon prepare {path} checks every line of that file.")
    from loader.errors import ConfigError
    from loader.format.lint import LintPlan, lint_dataset

    from .console import output_console, print_json
    from .progress import ProgressBar

    plan = LintPlan(
        path=path,
        level=level,
        workers=parallel or usable_cores(),
        split_parts=None if split_parts is None else tuple(name.strip() for name in split_parts.split(",")),
        split_config=split_config,
        dataset_config=dataset_config,
        max_findings=max_findings,
        make_sample_check=partial(_make_check, trust_code=trust_code),
    )
    unit = "samples" if level == "decode" else "shards"
    with ProgressBar("Checking", unit=unit, enabled=progress) as bar:
        try:
            report = lint_dataset(plan, on_progress=lambda now: bar.update(now.done, now.total))
        except ConfigError as error:  # about the plan; what is wrong with the dataset is a finding
            raise click.UsageError(f"--split-parts: {error.found}.") from error
    fixed = _fix(path, report, split_config) if fix else None
    if as_json:
        print_json(_document(path, level, report, None if fixed is None else fixed.samples))
    else:
        _show(output_console(), path, level, report, fixed)
    if report.errors or not report.complete:  # what was not looked at may be broken
        raise click.exceptions.Exit(1)


def _make_check(config: DatasetConfig | None, meta_folder: str, *, trust_code: bool) -> SampleCheck:
    from loader.samples.check import DecodeCheck

    return DecodeCheck(config, Path(meta_folder), trust_code)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fixed:
    """How many samples were excluded, and in which file."""

    samples: int
    file: str


def _fix(path: str, report: LintReport, split_config: str) -> _Fixed:
    if not any(finding.is_sample for finding in report.findings):
        return _Fixed(samples=0, file=split_config)
    from loader.format.dataset_folder import DatasetFolder
    from loader.format.lint_fix import exclude_broken_samples

    dataset = DatasetFolder(path, split_config=split_config)
    samples = exclude_broken_samples(dataset, report.findings)
    return _Fixed(samples=samples, file=dataset.split_file or split_config)


def _document(path: str, level: str, report: LintReport, fixed: int | None) -> dict[str, Any]:
    return {
        "path": path,
        "level": level,
        "complete": report.complete,
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
                "shard": finding.shard,
                "key": finding.key,
                "part": finding.part,
                "offset": finding.offset,
            }
            for finding in report.findings
        ],
    }


def _show(console: Console, path: str, level: str, report: LintReport, fixed: _Fixed | None) -> None:
    from .console import escape_controls, plural

    for finding, more in _grouped(report.findings):
        line = _line(finding)
        if more:
            line.append(f" (and {plural(more, 'shard')} more)")
        console.print(line, soft_wrap=True)
    checked = f"{plural(report.samples, 'sample')} in {plural(report.shards, 'shard')}, level {level}"
    if not report.findings:
        console.print(f"nothing wrong: {checked} ({report.seconds:.1f} s)", style="green", soft_wrap=True)
        return
    counts = f"{plural(report.errors, 'error')}, {plural(len(report.findings) - report.errors, 'warning')}"
    style = "bold red" if report.errors else "yellow"
    console.print(f"{counts}: {checked} ({report.seconds:.1f} s)", style=style, soft_wrap=True)
    if not report.complete:
        console.print("stopped at --max-findings: there may be more", soft_wrap=True)
    broken = len({(finding.shard, finding.key) for finding in report.findings if finding.is_sample})
    if fixed is not None:
        console.print(
            f"excluded {plural(fixed.samples, 'sample')} in {escape_controls(fixed.file)}; "
            "lint again to see what is left",
            soft_wrap=True,
        )
    elif broken:
        path = escape_controls(path)
        console.print(f"to leave {plural(broken, 'sample')} out of training: energon lint {path} --fix", soft_wrap=True)


def _grouped(findings: Sequence[Finding]) -> list[tuple[Finding, int]]:
    """Say once what holds for many shards, such as changed times after copying; errors all keep their own line."""
    first: dict[tuple[str, str], int] = {}
    groups: list[tuple[Finding, int]] = []
    for finding in findings:
        said = (finding.code, finding.message)
        if finding.severity == "warning" and finding.key is None and said in first:
            shown, more = groups[first[said]]
            groups[first[said]] = (shown, more + 1)
            continue
        first.setdefault(said, len(groups))
        groups.append((finding, 0))
    return groups


def _line(finding: Finding) -> Text:
    """Give a finding in one line: severity, code, where, what."""
    from rich.text import Text

    from .console import escape_controls

    where = finding.shard or ""
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
