"""Resolve the choices of ``energon prepare`` from flags, proposals, menus or lines of standard input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from loader.format.documents import SampleTypeSpec
from loader.format.prepare import DatasetYaml, SplitRequest, plan_split
from loader.inspect import Choices, OpenChoices, ShardFolder, open_choices, propose_choices, view_first_sample

from ..console import StatusLine
from .flags import PrepareFlags, split_of_flags, type_of_flags
from .history import AnswerHistory, RewindableQuestions
from .questions import PipedQuestions, ask
from .report import show_first_sample, show_found, show_notes, show_split

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["resolve_choices", "show_trial"]

_SHUFFLE_SEED = 42  # arbitrary, but constant: --shuffle-tars must be reproducible


def resolve_choices(flags: PrepareFlags, folder: ShardFolder, console: Console, history: AnswerHistory) -> Choices:
    """Resolve the open choices from flags, proposals, menus or lines of standard input.

    Args:
        flags: The command line.
        folder: The folder.
        console: The console that shows proposals and results.
        history: The answers so far, for menus: the prompts continue from them.
    """
    choices = _unshuffled_choices(flags, folder, console, history)
    return choices if choices.split is None else replace(choices, split=_with_flags(flags, choices.split))


def _with_flags(flags: PrepareFlags, request: SplitRequest) -> SplitRequest:
    if request.ratio is None:
        return request
    return replace(
        request,
        by_samples=request.by_samples or flags.split_by == "samples",
        shuffle_seed=_SHUFFLE_SEED if flags.shuffle_tars else None,
    )


def _unshuffled_choices(flags: PrepareFlags, folder: ShardFolder, console: Console, history: AnswerHistory) -> Choices:
    given = open_choices(
        folder,
        split=split_of_flags(flags),
        ask_split=not folder.has_split or flags.split_by == "samples",
        # A prepared dataset without a dataset.yaml stays without one, unless a flag or a menu requests it.
        ask_dataset_yaml=not flags.skip_dataset_yaml and (not folder.prepared or flags.sample_type is not None),
        **type_of_flags(flags.sample_type, flags.field_map),
    )
    if flags.tar_index_only:
        return Choices()
    if flags.non_interactive:
        if given.split is None and given.ask_split:
            raise click.UsageError(
                "--non-interactive requires a split: --split-ratio 8,1,1 or --split-parts NAME:PATTERN."
            )
        chosen = None if given.spec is None else DatasetYaml(spec=given.spec, field_map=given.field_map)
        return Choices(split=given.split, dataset_yaml=chosen)
    if flags.yes:
        return propose_choices(given)
    if history.first_time("the folder"):
        show_found(console, flags.path, folder.sizes, folder.first)
        if given.reason is not None and given.ask_dataset_yaml and given.spec is None:
            show_notes(console, [given.reason], label="note")
    if flags.asks_by_menus:
        return _ask_by_menus(flags, folder, given, console, history)
    questions = PipedQuestions(given.proposed_ratio, show=lambda line: console.print(line, soft_wrap=True))
    return ask(questions, given)


def _ask_by_menus(
    flags: PrepareFlags, folder: ShardFolder, given: OpenChoices, console: Console, history: AnswerHistory
) -> Choices:
    from .menus import MenuQuestions

    def try_field_map(spec: SampleTypeSpec, field_map: Mapping[str, str]) -> bool:
        choice = DatasetYaml(spec=spec, field_map=field_map)
        return show_trial(folder, choice, console, trust_code=flags.trust_code)

    def show_choice(choice: SplitRequest) -> None:
        planned = plan_split(folder.storage, _with_flags(flags, choice), list(folder.sizes))
        show_split(console, planned, folder.sizes)
        show_notes(console, planned.warnings, label="warning", style="yellow")

    menus = MenuQuestions(list(folder.sizes), try_field_map=try_field_map, show_split=show_choice)
    questions = RewindableQuestions(menus, history)

    def ask_all() -> Choices:
        asked = given
        if folder.prepared and given.split is None and given.spec is None and flags.split_by == "shards":
            split, dataset_yaml = questions.what_to_change(has_dataset_yaml=folder.has_dataset_yaml)
            asked = replace(given, ask_split=split or given.ask_split, ask_dataset_yaml=dataset_yaml)
        if (asked.ask_split or asked.ask_dataset_yaml) and history.first_time("the first sample"):
            show_first_sample(console, folder.first)
        return ask(questions, asked)

    return history.run(ask_all)


def show_trial(folder: ShardFolder, choice: DatasetYaml, console: Console, *, trust_code: bool) -> bool:
    """Build the first sample with the chosen field map, and print it or the error."""
    if not folder.first.parts:
        return True
    from ..preview.render import render_sample, terminal_space

    with StatusLine() as status:
        status.show("decoding the first sample…")
        view = view_first_sample(folder, choice, trust_code=trust_code)
    for line in render_sample(view, terminal_space(console, share=0.5)):
        console.print(line)
    return view.fault is None
