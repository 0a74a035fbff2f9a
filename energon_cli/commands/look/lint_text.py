"""Output of ``energon lint``: one line for each cause of findings and a summary, or one JSON object."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from loader.format.documents import is_record_file
from loader.inspect import ExcludedSamples, LintRequest

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from loader.inspect.browse import PageLinks
    from loader.lint import Finding, FindingGroup, LintReport

_FINDING = ("severity", "code", "message", "dataset", "shard", "key", "part", "offset", "at", "hint")  # keys in JSON
_MAX_EXAMPLES = 3  # of findings of one cause


def lint_document(
    path: str, level: str, report: LintReport, fixed: int | None, pages: PageLinks | None = None
) -> dict[str, Any]:
    """Return the ``--json`` document of a check; its keys are stable."""
    return {
        "path": path,
        "level": level,
        "complete": report.complete,
        "datasets": report.datasets,
        "shards": report.shards,
        "samples": report.samples,
        "seconds": round(report.seconds, 3),
        "decoded_media": report.decoded_media,
        "media_note": report.media_note,
        "errors": report.errors,
        "warnings": len(report.findings) - report.errors,
        "fixed": fixed,
        "pictures": _pictures_by_part(report),
        "part_sets": None if report.part_sets is None else report.part_sets.to_document(),
        "findings": [
            {name: getattr(finding, name) for name in _FINDING}
            | {"page": None if pages is None else pages.url(finding.dataset, finding.shard, finding.key)}
            for finding in report.findings
        ],
    }


def show_lint(
    console: Console,
    request: LintRequest,
    report: LintReport,
    fixed: ExcludedSamples | None,
    *,
    list_all: bool = False,
    with_advice: bool = True,
    pages: PageLinks | None = None,
) -> None:
    """Print the findings and a summary.

    Args:
        console: The console.
        request: The request of the lint.
        report: Its report.
        fixed: The samples that ``--fix`` excluded; None without that flag.
        list_all: Print each finding; otherwise findings of one cause share a line.
        with_advice: Say whether ``--fix`` would exclude samples.
        pages: The pages of samples, which findings link to; None for none.
    """
    from loader.format.media import TRAITS
    from loader.inspect import print_part_sets
    from loader.lint import FindingGroup, group_findings

    from ...console import show_note
    from ...links import supports_links

    def page(finding: Finding) -> str | None:
        return None if pages is None else pages.url(finding.dataset, finding.shard, finding.key)

    # List the findings.
    has_links = supports_links(console.file)
    groups = [FindingGroup(findings=(finding,)) for finding in report.findings]
    if not list_all:
        groups = group_findings(report.findings)
    for group in groups:
        for line in _lines(group, _link_of(console, request), page, has_links=has_links):
            console.print(line)
    # Describe the data, broken or not.
    for name, traits in _pictures_by_part(report).items():
        told = "; ".join(f"{count:,} {TRAITS[trait]}" for trait, count in traits.items())
        show_note(f"pictures {name}: {told}")
    table = report.part_sets
    if table is not None and len(table.sets) > 1:
        print_part_sets(console, table.to_document(), is_complete=not table.others)
    if report.media_note:
        show_note(report.media_note)
    # Summarise, and say what to do.
    _show_summary(console, request, report)
    if any(len(group.places) > _MAX_EXAMPLES for group in groups):
        console.print("to list every finding: add --all, or --json")
    if report.findings and not report.complete:
        stopped = request.max_findings is not None and len(report.findings) >= request.max_findings
        reason = "stopped at --max-findings" if stopped else "some samples were not checked because of errors"
        console.print(f"{reason}; there may be more findings")
    if report.findings and (fixed is not None or with_advice):
        _show_advice(console, request, report, fixed)


def _show_summary(console: Console, request: LintRequest, report: LintReport) -> None:
    from loader.inspect import plural

    checked = f"{_amount(request, report)}, level {request.level}"
    if report.decoded_media:
        checked += f", {report.decoded_media:,} of sound or video decoded to the end"
    counts = f"{plural(report.errors, 'error')}, {plural(len(report.findings) - report.errors, 'warning')}"
    style = "bold red" if report.errors else "yellow" if report.findings else "green"
    console.print(f"{counts if report.findings else 'no findings'}: {checked} ({report.seconds:.1f} s)", style=style)


def _pictures_by_part(report: LintReport) -> dict[str, dict[str, int]]:
    """Return the numbers of pictures by part and trait; the traits in the order of :data:`TRAITS`."""
    from loader.format.media import TRAITS

    parts = sorted({part for part, _ in report.pictures})
    return {
        part: {trait: report.pictures[part, trait] for trait in TRAITS if report.pictures[part, trait]}
        for part in parts
    }


def _show_advice(console: Console, request: LintRequest, report: LintReport, fixed: ExcludedSamples | None) -> None:
    from loader.errors import escape_controls
    from loader.inspect import exclusion_advice, plural

    from ...console import show_note

    if fixed is not None:
        excluded = f"excluded {plural(fixed.samples, 'sample')} in {escape_controls(fixed.file)}"
        console.print(f"{excluded}; run lint again to list the remaining findings")
        return
    for advice in exclusion_advice(request, report):
        if advice.refusal is None:
            samples = plural(advice.samples, "sample")
            command = " ".join([advice.path, "--fix", *request.ref.folder_flags])
            text = f"to exclude {samples} from training: energon lint {escape_controls(command)}"
        else:
            show_note(f"{advice.refusal.message}: {advice.refusal.at}; {advice.refusal.hint}")
            continue
        console.print(text)


def _amount(request: LintRequest, report: LintReport) -> str:
    from loader.inspect import kind_at, plural

    kind, samples = kind_at(request.ref), plural(report.samples, "sample")
    if kind == "folders of media files":
        return plural(report.samples, "file")
    if is_record_file(request.ref.path):
        return samples
    where = f"{samples} in {plural(report.shards, 'shard')}"
    return f"{where} of {plural(report.datasets, 'dataset')}" if kind == "metadatasets" else where


def _link_of(console: Console, request: LintRequest) -> Callable[[str | None, str | None], str | None]:
    """Return a function that returns the URL of a shard of a dataset, or of a path; None where links are not shown."""
    from ...links import file_url, supports_links

    if not supports_links(console.file):
        return lambda _dataset, _name: None

    def link(dataset: str | None, name: str | None) -> str | None:
        base = dataset or request.ref.path
        path = base if name is None or not os.path.isdir(base) else os.path.join(base, name)
        return file_url(path)

    return link


def _lines(
    group: FindingGroup,
    link: Callable[[str | None, str | None], str | None],
    page: Callable[[Finding], str | None],
    *,
    has_links: bool,
) -> Iterator[Text]:
    """Format findings of one cause: severity, code, places, message; then ``page:``, ``at:`` and ``hint:``, if any."""
    from rich.style import Style
    from rich.text import Text

    from loader.errors import escape_controls

    from ...settings import name_program

    finding = group.first
    where = _place(finding) if len(group.places) == 1 else _places(group)
    url = page(finding)
    line = Text()
    line.append(f"{finding.severity:<7} {finding.code}", style="red" if finding.severity == "error" else "yellow")
    if where:
        line.append("  ")
        target = link(finding.dataset, finding.shard) if url is None or not has_links else url
        line.append(escape_controls(where), style=Style(bold=True, link=target))
    line.append(f": {escape_controls(finding.message)}")
    yield line
    if url is not None and not has_links:
        yield Text(f"  page: {url}")
    for label, value in (("at", finding.at), ("hint", finding.hint)):
        if value:
            target = link(value, None) if label == "at" else None
            yield Text.assemble(f"  {label}: ", (name_program(escape_controls(value)), Style(link=target)))


def _place(finding: Finding) -> str:
    where = finding.shard or ""
    if finding.dataset is not None:
        where = finding.dataset if is_record_file(finding.dataset) else os.path.join(finding.dataset, where)
    if finding.key is not None:
        where += f"/{finding.key}"
    if finding.part is not None:
        where += f" [{finding.part}]"
    if finding.offset is not None:
        where += f" at byte {finding.offset}"
    return where


def _places(group: FindingGroup) -> str:
    """Format the number of places and the first ones: ``12 samples of /data/ocr [jpg] (s.tar/0, s.tar/1, …)``."""
    from loader.inspect import plural

    first, places = group.first, group.places
    dataset = "" if first.dataset is None else f" of {first.dataset}"
    part = "" if first.part is None else f" [{first.part}]"
    more = ", …" if len(places) > _MAX_EXAMPLES else ""
    return f"{plural(len(places), group.noun)}{dataset}{part} ({', '.join(places[:_MAX_EXAMPLES])}{more})"
