"""Print the findings of one or several paths in the format that the command line names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from loader.errors import escape_controls

from ..console import output_console, print_json
from .formats import github_commands, sarif_log
from .report import lint_document, show_lint

if TYPE_CHECKING:
    from loader.format.lint import LintReport
    from loader.inspect import ExcludedSamples, LintRequest
    from loader.inspect.browse import PageLinks


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
        path, level = request.path, request.level
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
