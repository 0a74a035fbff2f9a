"""Findings of lint for other programs: SARIF 2.1.0, and workflow commands of GitHub Actions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from loader import __version__
from loader.errors import escape_controls

from ...console import output_console, print_json
from .lint_text import lint_document, show_lint

if TYPE_CHECKING:
    from loader.inspect import ExcludedSamples, LintRequest
    from loader.inspect.browse import PageLinks
    from loader.lint import Finding, LintReport

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(path: str, level: str, report: LintReport, pages: PageLinks | None = None) -> dict[str, Any]:
    """Return the log of a check, as SARIF 2.1.0 (OASIS) describes it.

    A result has the place of the shard as an artifact with a byte offset, and the sample as a logical location. Its
    page in ``energon browse`` is the hosted viewer.
    """
    from loader.accounting import plain_text

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
        place = "" if finding.offset is None else f" (at byte {finding.offset})"
        hint = "" if finding.hint is None else f"\nhint: {finding.hint}"
        yield f"::{finding.severity} {shown}::{_data(f'{finding.message}{place}{hint}')}"


def _data(text: str) -> str:
    """Escape a message: a line break would end the command, and the next line could be another command.

    >>> _data("100%\\n::error::no")
    '100%25%0A::error::no'
    """
    safe = escape_controls(text, keep="\n\r")
    return safe.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


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


class LintOutput:
    """Print each report at once as text or annotations; collect documents, which :meth:`finish` prints as one.

    Args:
        output_format: ``text``, ``json``, ``github`` or ``sarif``.
        has_several: There are several paths: text has the path above its findings, and JSON is a list.
        list_all: Print every finding as text, instead of one line for each cause.
        with_advice: Add to text how to exclude broken samples.
    """

    def __init__(self, output_format: str, *, has_several: bool, list_all: bool, with_advice: bool) -> None:
        self._format = output_format
        self._has_several = has_several
        self._list_all = list_all
        self._with_advice = with_advice
        self._documents: list[dict[str, Any]] = []

    def add(
        self, request: LintRequest, report: LintReport, fixed: ExcludedSamples | None, pages: PageLinks | None
    ) -> None:
        """Add the report of a path.

        Args:
            request: The check.
            report: Its findings.
            fixed: The samples that were excluded; None if none should be.
            pages: Links to the pages of ``energon browse``; None without links.
        """
        path, level = request.ref.path, request.level
        if self._format == "json":
            self._documents.append(lint_document(path, level, report, None if fixed is None else fixed.samples, pages))
        elif self._format == "sarif":
            self._documents.append(sarif_log(path, level, report, pages))
        elif self._format == "github":
            for line in github_commands(path, report):
                click.echo(line)
        else:
            if self._has_several:
                click.echo(f"{escape_controls(path)}:")
            console = output_console()
            show_lint(
                console, request, report, fixed, list_all=self._list_all, with_advice=self._with_advice, pages=pages
            )

    def finish(self) -> None:
        """Print the collected documents."""
        if self._format == "json":
            print_json(self._documents if self._has_several else self._documents[0])
        elif self._format == "sarif":
            runs = [run for log in self._documents for run in log["runs"]]
            print_json({**self._documents[0], "runs": runs})
