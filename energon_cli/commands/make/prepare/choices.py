"""Resolve the choices of ``energon prepare`` from flags, proposals, menus or lines of standard input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from loader.errors import escape_controls, plural
from loader.format.documents import SampleTypeSpec
from loader.inspect import (
    Choices,
    OpenChoices,
    ShardFolder,
    format_bytes,
    misses_ratio,
    propose_choices,
    view_first_sample,
)
from loader.prepare import DatasetYaml, SplitRequest, plan_split

from ....console import StatusLine, show_note, show_warning
from ..prompts import AnswerHistory
from ..questions import PipedQuestions, ask
from .flags import PrepareFlags, type_of_flags
from .report import show_first_sample, show_part_sets, show_sample, show_split
from .scan import BackgroundScan

if TYPE_CHECKING:
    from rich.console import Console

    from ..menus import MenuQuestions

_SHUFFLE_SEED = 42  # arbitrary, but constant: --shuffle-tars must be reproducible


def needs_contents(flags: PrepareFlags, folder: ShardFolder) -> bool:
    """Return True if a sample type may be proposed or checked, for which the scan inspects samples."""
    if flags.tar_index_only or flags.skip_dataset_yaml:
        return False
    if flags.sample_type is not None:
        return not flags.sample_type.crude
    return flags.asks_by_menus or not (flags.non_interactive or folder.prepared)


def with_flags(flags: PrepareFlags, request: SplitRequest) -> SplitRequest:
    """Return a split as the flags about ratios say."""
    if request.ratio is None:
        return request
    return replace(
        request,
        by_samples=request.by_samples or flags.by_samples is True,
        shuffle_seed=_SHUFFLE_SEED if flags.shuffle_tars else None,
    )


def resolve_choices(
    flags: PrepareFlags, folder: ShardFolder, scan: BackgroundScan, console: Console, history: AnswerHistory
) -> Choices:
    """Resolve the open choices from flags, proposals, menus or lines of standard input."""
    # Collect what flags settle.
    given = OpenChoices(
        folder,
        split=flags.plan.split,
        ask_split=not folder.has_split or flags.replaces_split,
        by_samples=flags.by_samples,
        # A prepared dataset without a dataset.yaml stays without one, unless a flag or a menu requests it.
        ask_dataset_yaml=not flags.skip_dataset_yaml and (not folder.prepared or flags.sample_type is not None),
        **type_of_flags(flags.sample_type, flags.field_map),
    )
    if flags.tar_index_only:
        return Choices()
    # Without prompts, take the flags or the proposals.
    if flags.non_interactive:
        if given.split is None and given.ask_split:
            raise click.UsageError(
                "--non-interactive requires a split: --split-ratio 8,1,1 or --split-parts NAME:PATTERN."
            )
        chosen = None if given.spec is None else DatasetYaml(spec=given.spec, field_map=given.field_map)
        return Choices(split=given.split, dataset_yaml=chosen)
    if flags.yes:
        folder = scan.wait()
        given = replace(given, samples={shard.name: shard.samples for shard in scan.prepare.index.shards})
        return propose_choices(replace(given, folder=folder))
    # Prompt by menus or lines; the type is proposed after the scan.
    if given.split is not None and flags.asks_by_menus:
        given = replace(given, split=given.fitted(given.split))

    def scanned(asked: OpenChoices) -> OpenChoices:
        completed = replace(asked, folder=scan.wait())
        if history.first_time("the part sets"):
            show_part_sets(console, scan.prepare.index.part_sets.to_document(), completed.folder.contents)
            if flags.asks_by_menus:
                show_first_sample(console, completed.folder.contents)
            if completed.spec is None and completed.proposal.reason is not None:
                show_note(completed.proposal.reason)
        return completed

    if history.first_time("the folder"):
        size = format_bytes(sum(folder.sizes.values()))
        console.print(f"{escape_controls(flags.ref.path)}: {plural(len(folder.sizes), 'shard')}, {size}")
    if not flags.asks_by_menus:
        return ask(PipedQuestions(show=console.print), given, scanned)
    # Ask what was not given; Escape returns to the earlier question.
    questions = _menus(flags, folder, scan, console, history)

    def ask_all() -> Choices:
        asked = given
        if folder.prepared and given.split is None and given.spec is None and not flags.replaces_split:
            split, dataset_yaml = questions.what_to_change(has_dataset_yaml=folder.has_dataset_yaml)
            asked = replace(given, ask_split=split or given.ask_split, ask_dataset_yaml=dataset_yaml)
        return ask(questions, asked, scanned)

    return history.run(ask_all)


def _menus(
    flags: PrepareFlags, folder: ShardFolder, scan: BackgroundScan, console: Console, history: AnswerHistory
) -> MenuQuestions:
    from ..menus import MenuQuestions

    def try_field_map(spec: SampleTypeSpec, field_map: Mapping[str, str]) -> bool:
        return show_trial(scan.wait(), console, spec, field_map, trust_code=flags.ref.trust_code)

    def show_choice(choice: SplitRequest) -> bool:
        request = with_flags(flags, choice)
        planned = plan_split(folder.storage, request, list(folder.sizes))
        show_split(console, planned, folder.sizes, request)
        show_warning(*planned.warnings)
        return flags.by_samples is None and misses_ratio(folder.sizes, request)

    return MenuQuestions(
        history, folder.sizes, path=flags.ref.path, try_field_map=try_field_map, show_split=show_choice
    )


def show_trial(
    folder: ShardFolder,
    console: Console,
    spec: SampleTypeSpec,
    field_map: Mapping[str, str],
    *,
    trust_code: bool = False,
) -> bool:
    """Build a sample with the chosen field map, and print it or the error."""
    if not folder.contents.parts:
        return True
    with StatusLine() as status:
        status.show("decoding the first sample…")
        view = view_first_sample(folder, DatasetYaml(spec=spec, field_map=field_map), trust_code=trust_code)
    show_sample(console, view)
    return view.fault is None
