"""Show how the samples of a tree are made, and ask which way is meant where that is unclear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from loader.convert.sources import UnclearDataError, compared_hypotheses
from loader.engine import COMMAND_LINE
from loader.errors import escape_controls, plural
from loader.format.documents import ImportWay

from ....command import command_line, typed_options, without_secrets
from ....console import facts_of, print_json, show_note
from ..prompts import select_or_leave
from .choices import ImportFlags

if TYPE_CHECKING:
    from rich.console import Console

    from loader.convert.sources import Hypothesis, ImportSource

    _OfTrees = Iterable[tuple[str, Sequence[Hypothesis]]]  # paths, with the ways that were compared

_MAX_OFFERED = 3  # ways in a menu: those that a person compares at a glance


def decisions(sources: Sequence[ImportSource]) -> Iterator[str]:
    """Yield how the samples of each tree are made, with the evidence, and what else would have been possible."""
    for path, compared in compared_hypotheses(sources):
        others = ", ".join(each.name for each in compared[1:] if each.fits)
        at = f"{path}: " if len(sources) > 1 else ""
        yield at + compared[0].evidence + (f"; possible as well: {others}" if others else "")


def hypotheses_documents(of_trees: _OfTrees, most: int | None = None) -> list[dict[str, Any]]:
    """Return the ways to make samples of trees for a JSON document, at most some for each."""
    return [{"source": path, **each.to_document()} for path, compared in of_trees for each in compared[:most]]


def show_hypotheses(console: Console, of_trees: _OfTrees, *, is_taken: bool) -> None:
    """Print the ways to make samples of trees that were compared, and the files for which each has no role.

    Args:
        is_taken: The first one of each tree was taken.
    """
    for path, compared in of_trees:
        console.print(f"ways to make samples of {path}:")
        for each in compared:
            left = f"; {plural(len(each.layout.left), 'file')} left out" if each.layout.left else ""
            example = f", such as {each.unclear[0]}" if each.unclear else ""
            unclear = "" if each.fits else f"; no role for {plural(len(each.unclear), 'file')}{example}"
            taken = " (taken)" if is_taken and each is compared[0] else ""
            console.print(f"  {each.name}{taken}: {each.evidence}{left}{unclear}")


def choose_way(flags: ImportFlags, error: UnclearDataError, console: Console) -> ImportFlags:
    """Return the flags of the way to import that a person chooses; raise the error where there is no terminal.

    The error then names the command line of each way, with the options and the other sources that were typed. A way
    with options of its own is not for the other sources: it imports its source alone.
    """
    ways = [_completed(way, flags, str(error.at)) for way in error.ways]
    hints = [str(way._replace(words=[*map(without_secrets, way.words)])) for way in ways]
    error.hint = "; ".join(hints)
    # A dry run shows what was compared.
    of_trees = [(str(error.at), error.hypotheses)]
    if flags.dry_run and flags.as_json:
        print_json(facts_of(flags, "output dry_run hypotheses", hypotheses=hypotheses_documents(of_trees)))
    elif flags.dry_run:
        show_hypotheses(console, of_trees, is_taken=False)
    is_alone = len(flags.sources) == 1
    offered = [way for way in ways if way.is_import and (is_alone or flags.output in way.words)][:_MAX_OFFERED]
    if not flags.asks_by_menus or not offered:
        raise error
    # Ask; what a command line alone does is shown above.
    console.print(f"{error.at}: {error.message}")
    show_note(*(hint for hint, way in zip(hints, ways, strict=True) if way not in offered))
    labels = {escape_controls(f"{way.taken}: {way.makes}"): way.words for way in offered}
    label = select_or_leave("What should be imported?", [*labels], "leave, and write nothing")
    # Take the sources and their options from the command line of the way.
    context = click.get_current_context()
    COMMAND_LINE.set(partial(command_line, labels[label]))
    with context.command.make_context("import", [*labels[label][1:]], parent=context.parent) as chosen:
        decided = ("parts", "root", "group_by", "segments", "split_lists")
        columns = replace(flags.columns, **{name: chosen.params[name] for name in decided})
        return replace(flags, sources=chosen.params["sources"], kind=chosen.params["kind"], columns=columns)


def _completed(way: ImportWay, flags: ImportFlags, at: str) -> ImportWay:
    """Return a way with the other sources and options that were typed, except those that the way replaces.

    Args:
        at: The source that the way is for.
    """
    if not way.words:
        return way
    options = next(index for index, word in enumerate(way.words) if word.startswith("--"))
    typed = typed_options(click.get_current_context(), apart_from=way.words[options:])
    paths, has_options = way.words[1:options], len(way.words) > options + 1  # one of them is --yes
    if len(flags.sources) > 1 and at in flags.sources and not has_options:
        position = flags.sources.index(at)
        paths = [*flags.sources[:position], *paths[:-1], *flags.sources[position + 1 :], flags.output]
    return way._replace(words=["import", *paths, *typed, *way.words[options:]])
