"""Commands, links and targets that the documentation names exist."""

from __future__ import annotations

import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from tests.findings_page import PAGE, findings_page
from tests.source_tree import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "changes").glob("*.md")])


def command_lines(text: str) -> Iterator[list[str]]:
    """Yield the words of each ``energon`` command: of lines behind a prompt, and of code within sentences."""
    joined = text.replace("\\\n", " ")
    lines = re.findall(r"^\s*\$ (.*)$", joined, flags=re.MULTILINE)
    lines += re.findall(r"`(energon [^`\n]+)`", joined)
    for line in lines:
        for start in re.finditer(r"(?:^|[|&;] *|/)energon ", line):
            lexer = shlex.shlex(line[start.end() - len("energon ") :], posix=True, punctuation_chars="|&;<>")
            lexer.whitespace_split = True
            words = []
            for word in lexer:
                if word[0] in "|&;<>#":
                    break
                words.append(word)
            yield words


def unknown_words(words: list[str], group: click.Group) -> Iterator[str]:
    context = click.Context(group, info_name="energon")
    command: click.Command = group
    for word in words[2:] if words[1:2] == ["help"] else words[1:]:  # `energon help` names commands
        if isinstance(command, click.Group) and not word.startswith("-"):
            found = command.get_command(context, word)
            if found is None:
                yield f"energon {word}"
                return
            command = found
        elif word.startswith("-"):
            known = {name for option in command.get_params(context) for name in [*option.opts, *option.secondary_opts]}
            if word.partition("=")[0] not in known:
                yield f"energon {command.name} {word}"
        elif not command.context_settings.get("allow_interspersed_args", True):
            return  # the rest is passed to a script


def offenders(check: Callable[[Path, str], Iterator[str]]) -> list[str]:
    """Return every fault that a check finds in the pages, with the page."""
    return [
        f"{page.relative_to(ROOT)}: {fault}"
        for page in PAGES
        for fault in check(page, page.read_text(encoding="utf-8"))
    ]


def test_every_command_line_in_the_documentation_is_understood() -> None:
    from energon_cli.main import cli

    assert not offenders(lambda _, text: (word for words in command_lines(text) for word in unknown_words(words, cli)))


def dead_links(page: Path, text: str) -> Iterator[str]:
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    is_fragment = page.parent.name == "changes" and page.name != "README.md"  # its lines move to CHANGELOG.md
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        path = link.partition("#")[0]
        if "://" not in link and path and not ((ROOT if is_fragment else page.parent) / path).exists():
            yield link


def test_every_link_in_the_documentation_leads_somewhere() -> None:
    assert not offenders(dead_links)


def test_a_release_takes_every_line_of_the_fragments_of_the_changelog() -> None:
    draft = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    fragments = [path for path in (ROOT / "changes").glob("*.md") if path.name != "README.md"]
    lines = {line for path in fragments for line in path.read_text(encoding="utf-8").splitlines()}
    assert lines <= set(draft.splitlines())


def unknown_targets(page: Path, text: str) -> Iterator[str]:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    named = re.findall(r"`make ([a-z-]+)`|^\s*\$ make ([a-z-]+)", text, flags=re.MULTILINE)
    yield from sorted({first or second for first, second in named} - targets)


def test_every_make_target_in_the_documentation_exists() -> None:
    assert not offenders(unknown_targets)


def unknown_names(_: Path, text: str) -> Iterator[str]:
    for name in re.findall(r"^::: (loader[\w.]*)$", text, flags=re.MULTILINE):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            yield name


def test_every_name_of_the_reference_is_where_its_page_says() -> None:
    assert not offenders(unknown_names)


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert not sorted(page for page in pages if f" {page}\n" not in navigation)


def test_every_finding_of_lint_is_explained_in_the_words_that_the_code_has() -> None:
    from loader.inspect.lint import lint_rules

    text = (ROOT / "docs" / "reference" / "findings.md").read_text(encoding="utf-8").replace("`", "")
    rows = re.findall(r"^\| ([EW]\d{3}) \| (.+?) \| .+ \|$", text, flags=re.MULTILINE)
    assert rows == [(rule.code, rule.meaning) for group in lint_rules() for rule in group.rules]


@pytest.fixture(scope="module", autouse=True)
def _written_page() -> None:
    if os.environ.get("ENERGON_WRITE_GOLDEN"):
        PAGE.write_text(findings_page(), encoding="utf-8")


def test_the_page_of_findings_is_written_from_the_rules() -> None:
    assert PAGE.read_text(encoding="utf-8") == findings_page()


def test_the_reader_of_command_lines_finds_them() -> None:
    text = "$ energon lint /d --level headers && echo '--no'\n$ printf x | energon prepare /d\nuse `energon info -h`\n"
    text += "$ energon prepare /d \\\n    --yes  # comment\n$ .venv/bin/energon preview build/demo\n"
    assert list(command_lines(text)) == [
        ["energon", "lint", "/d", "--level", "headers"],
        ["energon", "prepare", "/d"],
        ["energon", "prepare", "/d", "--yes"],
        ["energon", "preview", "build/demo"],
        ["energon", "info", "-h"],
    ]


def test_a_flag_that_no_command_has_is_found() -> None:
    group = click.Group("energon", commands=[click.Command("info", params=[click.Option(["--json"], is_flag=True)])])
    assert list(unknown_words(["energon", "info", "/d", "--json", "--help"], group)) == []
    assert list(unknown_words(["energon", "info", "--jason"], group)) == ["energon info --jason"]
    assert list(unknown_words(["energon", "inform"], group)) == ["energon inform"]


def test_contributors_see_every_folder_of_the_library() -> None:
    rows = re.findall(
        r"^\| `(loader/\w+)/` \|[^|]*\|(.*)\|$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE
    )
    listed = {folder: set(re.findall(r"`(\w+)`", packages)) for folder, packages in rows}
    packages = {
        folder: {package.parent.name for package in (ROOT / folder).glob("*/__init__.py")}
        for folder in (f"loader/{path.parent.name}" for path in (ROOT / "loader").glob("*/__init__.py"))
    }
    assert {**packages, "loader/compat": {"megatron_energon"}} == listed


def test_docstrings_of_packages_name_modules_that_exist() -> None:
    faults = [
        f"{package.relative_to(ROOT)}: {name}"
        for folder in ("loader", "energon_cli")
        for package in (ROOT / folder).rglob("__init__.py")
        for name in re.findall(r"^`{1,2}([\w/]+\.py)`", package.read_text(encoding="utf-8"), flags=re.MULTILINE)
        if not (package.parent / name).exists()
    ]
    assert not faults
