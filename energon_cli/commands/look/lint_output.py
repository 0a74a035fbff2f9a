"""Output of ``energon lint``: text, JSON, SARIF 2.1.0, and workflow commands of GitHub Actions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from loader import __version__
from loader.errors import escape_controls, plural
from loader.format import DatasetRef
from loader.inspect import ExcludedSamples, LintRequest

from ...console import facts_of, file_url, output_console, print_json, show_note, supports_links

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from loader.inspect.browse import PageLinks
    from loader.lint import Finding, FindingGroup, LintReport


_MAX_EXAMPLES = 3  # of findings of one cause


def lint_document(
    path: str, level: str, report: LintReport, fixed: int | None, pages: PageLinks | None = None
) -> dict[str, Any]:
    """Return the ``--json`` document of a check; its keys are stable."""
    # Describe each finding, with the page of its sample if pages are served.
    findings = [
        facts_of(
            finding,
            "severity code message dataset shard key part offset at hint page",
            page=None if pages is None else pages.url(finding.dataset, finding.shard, finding.key),
        )
        for finding in report.findings
    ]
    return facts_of(
        report,
        "path level complete datasets shards samples seconds decoded_media media_note errors warnings fixed pictures "
        "part_sets findings",
        path=path,
        level=level,
        seconds=round(report.seconds, 3),
        warnings=len(report.findings) - report.errors,
        fixed=fixed,
        pictures=_pictures_by_part(report),
        findings=findings,
    )


def show_lint(
    console: Console,
    request: LintRequest,
    report: LintReport,
    fixed: ExcludedSamples | None,  # by --fix; None without that flag
    *,
    unit: str,  # of the progress
    list_all: bool = False,
    with_advice: bool = True,
    pages: PageLinks | None = None,
) -> None:
    """Print the findings and a summary."""
    from loader.inspect import print_part_sets
    from loader.lint import FindingGroup, group_findings
    from loader.parts import TRAITS

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
    _show_summary(console, request, report, unit)
    if any(len(group.places) > _MAX_EXAMPLES for group in groups):
        console.print("to list every finding: add --all, or --json")
    if report.findings and not report.complete:
        stopped = request.max_findings is not None and len(report.findings) >= request.max_findings
        reason = "stopped at --max-findings" if stopped else "some samples were not checked because of errors"
        console.print(f"{reason}; there may be more findings")
    if report.findings and (fixed is not None or with_advice):
        _show_advice(console, request, report, fixed)


def _show_summary(console: Console, request: LintRequest, report: LintReport, unit: str) -> None:
    checked = f"{_amount(request, report, unit)}, level {request.level}"
    if report.decoded_media:
        checked += f", {report.decoded_media:,} of sound or video decoded to the end"
    counts = f"{plural(report.errors, 'error')}, {plural(len(report.findings) - report.errors, 'warning')}"
    style = "bold red" if report.errors else "yellow" if report.findings else "green"
    console.print(f"{counts if report.findings else 'no findings'}: {checked} ({report.seconds:.1f} s)", style=style)


def _pictures_by_part(report: LintReport) -> dict[str, dict[str, int]]:
    from loader.parts import TRAITS

    parts = sorted({part for part, _ in report.pictures})
    return {
        part: {trait: report.pictures[part, trait] for trait in TRAITS if report.pictures[part, trait]}
        for part in parts
    }


def _show_advice(console: Console, request: LintRequest, report: LintReport, fixed: ExcludedSamples | None) -> None:
    from loader.inspect import exclusion_advice

    if fixed is not None:
        excluded = f"excluded {plural(fixed.samples, 'sample')} in {escape_controls(fixed.file)}"
        console.print(f"{excluded}; run lint again to list the remaining findings")
        return
    for advice in exclusion_advice(request, report):
        if advice.refusal is None:
            samples = plural(advice.samples, "sample")
            command = " ".join([advice.path, "--fix", *request.ref.folder_flags])
            console.print(f"to exclude {samples} from training: energon lint {escape_controls(command)}")
        else:
            show_note(f"{advice.refusal.message}: {advice.refusal.at}; {advice.refusal.hint}")


def _amount(request: LintRequest, report: LintReport, unit: str) -> str:
    samples = plural(report.samples, "file" if unit == "files" else "sample")
    if unit == "files" or request.ref.kind.is_file:
        return samples
    where = f"{samples} in {plural(report.shards, 'shard')}"
    return f"{where} of {plural(report.datasets, 'dataset')}" if request.ref.kind.is_mix else where


def _link_of(console: Console, request: LintRequest) -> Callable[[str | None, str | None], str | None]:
    """Return a function that returns the URL of a shard of a dataset, or of a path; None where links are not shown."""
    if not supports_links(console.file):
        return lambda _dataset, _name: None

    def link(dataset: str | None, name: str | None) -> str | None:
        base = dataset or request.ref.path
        return file_url(base if name is None or not os.path.isdir(base) else os.path.join(base, name))

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

    from ...settings import name_program

    finding = group.first
    where = _place(finding) if len(group.places) == 1 else _places(group)
    url = page(finding)
    # The first line names the finding and its place, which is a link to the page or file.
    line = Text()
    line.append(f"{finding.severity:<7} {finding.code}", style="red" if finding.severity == "error" else "yellow")
    if where:
        line.append("  ")
        target = link(finding.dataset, finding.shard) if url is None or not has_links else url
        line.append(escape_controls(where), style=Style(bold=True, link=target))
    line.append(f": {escape_controls(finding.message)}")
    yield line
    # Further lines have what the first line cannot: a URL without links, the position, and the hint.
    if url is not None and not has_links:
        yield Text(f"  page: {url}")
    for label, value in (("at", finding.at), ("hint", finding.hint)):
        if value:
            target = link(value, None) if label == "at" else None
            yield Text.assemble(f"  {label}: ", (name_program(escape_controls(value)), Style(link=target)))


def _place(finding: Finding) -> str:
    where = finding.shard or ""
    if finding.dataset is not None:
        where = finding.dataset if DatasetRef(finding.dataset).kind.is_file else os.path.join(finding.dataset, where)
    if finding.key is not None:
        where += f"/{finding.key}"
    if finding.part is not None:
        where += f" [{finding.part}]"
    if finding.offset is not None:
        where += f" at byte {finding.offset}"
    return where


def _places(group: FindingGroup) -> str:
    """Format the number of places and the first ones: ``12 samples of /data/ocr [jpg] (s.tar/0, s.tar/1, …)``."""
    first, places = group.first, group.places
    dataset = "" if first.dataset is None else f" of {first.dataset}"
    part = "" if first.part is None else f" [{first.part}]"
    more = ", …" if len(places) > _MAX_EXAMPLES else ""
    return f"{plural(len(places), group.noun)}{dataset}{part} ({', '.join(places[:_MAX_EXAMPLES])}{more})"


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(path: str, level: str, report: LintReport, pages: PageLinks | None = None) -> dict[str, Any]:
    """Return the log of a check, as SARIF 2.1.0 (OASIS) describes it."""
    from loader.engine import plain_text

    # Results name their rules by position.
    rules = sorted({finding.rule for finding in report.findings}, key=lambda rule: rule.code)
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "energon lint",
                        "version": __version__,
                        "rules": [
                            {
                                "id": rule.code,
                                "shortDescription": {"text": rule.meaning},
                                "fullDescription": {"text": plain_text(rule.why)},
                                "help": {"text": f"{plain_text(rule.action)}\n\nExample: {plain_text(rule.example)}"},
                                "defaultConfiguration": {"level": rule.severity},
                            }
                            for rule in rules
                        ],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": report.complete,
                        "exitCode": int(bool(report.errors) or not report.complete),
                    }
                ],
                "columnKind": "unicodeCodePoints",
                "properties": {"level": level, "shards": report.shards, "samples": report.samples},
                "results": [_result(path, finding, rules.index(finding.rule), pages) for finding in report.findings],
            }
        ],
    }


def _result(path: str, finding: Finding, rule_index: int, pages: PageLinks | None) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(_file(path, finding))}}
    if finding.offset is not None:
        physical["region"] = {"byteOffset": finding.offset}
    location: dict[str, Any] = {"physicalLocation": physical}
    sample = _sample(finding)
    if sample:
        location["logicalLocations"] = [{"fullyQualifiedName": sample, "kind": "member"}]
    text = finding.message if finding.hint is None else f"{finding.message}\nhint: {finding.hint}"
    page = None if pages is None else pages.url(finding.dataset, finding.shard, finding.key)
    return {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": finding.severity,
        "message": {"text": escape_controls(text, keep="\n")},
        "locations": [location],
    } | ({} if page is None else {"hostedViewerUri": page})


def github_commands(path: str, report: LintReport) -> Iterator[str]:
    """Yield a workflow command for each finding, which GitHub Actions shows as an annotation."""
    for finding in report.findings:
        file = os.path.relpath(where) if os.path.exists(where := _file(path, finding)) else where
        properties = {"file": file, "title": f"{finding.code} {_sample(finding)}".rstrip()}
        shown = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
        at = "" if finding.offset is None else f" (at byte {finding.offset})"
        hint = "" if finding.hint is None else f"\nhint: {finding.hint}"
        yield f"::{finding.severity} {shown}::{_data(f'{finding.message}{at}{hint}')}"


def _data(text: str) -> str:
    """Escape a message: a line break would end the command, and the next line could be another command.

    >>> _data("100%\\n::error::no")
    '100%25%0A::error::no'
    """
    return escape_controls(text, keep="\n\r").replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape the value of a property, which ends at a comma or colon.

    >>> _property("a:b,c")
    'a%3Ab%2Cc'
    """
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _file(path: str, finding: Finding) -> str:
    """Return the path or URL of the file that a finding is about; the dataset's if it is about all of it."""
    base = path if finding.dataset is None else finding.dataset
    if finding.shard is None:
        return finding.at if finding.at and os.path.exists(finding.at) else base
    if os.path.basename(base) == finding.shard and not os.path.isdir(base):
        return base  # a single file
    return f"{base.rstrip('/')}/{finding.shard}"


def _sample(finding: Finding) -> str:
    names = [name for name in (finding.shard, finding.key) if name is not None]
    part = "" if finding.part is None else f" [{finding.part}]"
    return f"{'/'.join(names)}{part}" if finding.key is not None else part.strip()


def _uri(path: str) -> str:
    """Return a path as a reference of RFC 3986; an absolute one as a ``file`` URL.

    >>> _uri("data/a b.tar"), _uri("/data/ä.tar"), _uri("s3://bucket/a#1.tar")
    ('data/a%20b.tar', 'file:///data/%C3%A4.tar', 's3://bucket/a%231.tar')
    """
    scheme, separator, rest = path.partition("://")
    if separator:
        return f"{scheme}://{quote(rest, errors='surrogateescape')}"
    quoted = quote(path, errors="surrogateescape")
    return f"file://{quoted}" if path.startswith("/") else quoted


def print_report(
    output_format: str,
    request: LintRequest,
    report: LintReport,
    fixed: ExcludedSamples | None,
    *,
    pages: PageLinks | None,
    is_titled: bool,
    **options: Any,
) -> dict[str, Any] | None:
    """Print a report as text or annotations of GitHub; return the document of another format, for print_documents."""
    path, level = request.ref.path, request.level
    if output_format == "json":
        return lint_document(path, level, report, None if fixed is None else fixed.samples, pages)
    if output_format == "sarif":
        return sarif_log(path, level, report, pages)
    if output_format == "github":
        for line in github_commands(path, report):
            click.echo(line)
        return None
    if is_titled:
        click.echo(f"{escape_controls(path)}:")
    show_lint(output_console(), request, report, fixed, pages=pages, **options)
    return None


def print_documents(output_format: str, documents: Sequence[dict[str, Any]]) -> None:
    """Print the documents of all paths as one."""
    if output_format == "sarif":
        print_json({**documents[0], "runs": [run for log in documents for run in log["runs"]]})
    else:
        print_json(documents if len(documents) > 1 else documents[0])
