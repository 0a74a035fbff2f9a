"""Resolve the choices of ``energon prepare`` from flags, proposals, menus or lines of standard input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from loader.format.documents import SampleTypeSpec
from loader.format.prepare import DatasetYaml, SplitRequest, plan_split
from loader.inspect import Choices, OpenChoices, ShardFolder, open_choices, propose_choices, view_first_sample

from ..console import show_progress
from .flags import PrepareFlags, split_of_flags, type_of_flags
from .questions import PipedQuestions, ask
from .report import show_first_sample, show_found, show_notes, show_split

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["resolve_choices"]

_SHUFFLE_SEED = 42  # arbitrary, but constant: --shuffle-tars must be reproducible


def resolve_choices(flags: PrepareFlags, folder: ShardFolder, console: Console) -> Choices:
    """Resolve the open choices from flags, proposals, menus or lines of standard input."""
    choices = _unshuffled_choices(flags, folder, console)
    return choices if choices.split is None else replace(choices, split=_shuffled(flags, choices.split))


def _shuffled(flags: PrepareFlags, request: SplitRequest) -> SplitRequest:
    if flags.shuffle_tars and request.ratio is not None:
        return replace(request, shuffle_seed=_SHUFFLE_SEED)
    return request


def _unshuffled_choices(flags: PrepareFlags, folder: ShardFolder, console: Console) -> Choices:
    given = open_choices(
        folder,
        split=split_of_flags(flags),
        ask_split=not folder.has_split,
        # A prepared dataset without a dataset.yaml stays without one, unless a flag or a menu requests it.
        ask_dataset_yaml=not flags.skip_dataset_yaml and (not folder.prepared or flags.sample_type is not None),
        **type_of_flags(flags),
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
    show_found(console, flags.path, folder.sizes, folder.first)
    if flags.asks_by_menus:
        return _ask_by_menus(flags, folder, given, console)
    questions = PipedQuestions(given.proposed_ratio, show=lambda line: console.print(line, soft_wrap=True))
    return ask(questions, given)


def _ask_by_menus(flags: PrepareFlags, folder: ShardFolder, given: OpenChoices, console: Console) -> Choices:
    from .menus import MenuQuestions, ask_what_to_change

    if folder.prepared and given.split is None and given.spec is None:
        split, dataset_yaml = ask_what_to_change(has_dataset_yaml=folder.has_dataset_yaml)
        given = replace(given, ask_split=split or not folder.has_split, ask_dataset_yaml=dataset_yaml)
    if given.ask_split or given.ask_dataset_yaml:
        show_first_sample(console, folder.first)

    def try_field_map(spec: SampleTypeSpec, field_map: Mapping[str, str]) -> bool:
        choice = DatasetYaml(spec=spec, field_map=field_map)
        return _show_trial(folder, choice, console, trust_code=flags.trust_code)

    def show_choice(choice: SplitRequest) -> None:
        planned = plan_split(folder.storage, _shuffled(flags, choice), list(folder.sizes))
        show_split(console, planned.parts, folder.sizes)
        show_notes(console, planned.warnings, label="warning", style="yellow")

    questions = MenuQuestions(list(folder.sizes), try_field_map=try_field_map, show_split=show_choice)
    return ask(questions, given)


def _show_trial(folder: ShardFolder, choice: DatasetYaml, console: Console, *, trust_code: bool) -> bool:
    """Build the first sample with the chosen field map, and print it or the error."""
    if not folder.first.parts:
        return True
    show_progress("decoding the first sample…")
    from ..preview.render import render_sample, terminal_space

    view = view_first_sample(folder, choice, trust_code=trust_code)
    for line in render_sample(view, terminal_space(console, share=0.5)):
        console.print(line)
    return view.fault is None
