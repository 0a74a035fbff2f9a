"""What is found in a folder, and what is decided about it: by flags, proposals, menus or lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from loader.errors import EnergonError
from loader.format import nv_meta
from loader.format.field_map import parse_field_expression
from loader.format.prepare_plan import SplitRequest
from loader.format.prepare_split import plan_split
from loader.format.sample_types import SAMPLE_TYPES, SampleTypeSpec, propose_sample_types
from loader.format.shard_search import find_shards
from loader.format.split_plan import detect_split
from loader.storage import Storage, open_storage

from .prepare_choices import Choices, DatasetYaml
from .prepare_flags import PrepareFlags, split_of_flags, type_of_flags
from .prepare_look import Look, look_at_samples
from .prepare_report import show_found, show_look, show_notes, show_split
from .prepare_template import dataset_config_of
from .prepare_wizard import Given, ask, propose_everything

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Folder", "decide", "look_into_folder", "remarks"]

_SHUFFLE_SEED = 42  # any number will do, as long as it stays the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The folder to prepare, as it is found.

    Args:
        storage: The folder.
        sizes: Bytes of each shard, in the dataset's order.
        look: What the first samples are like.
        has_split: It has a split already, which is kept unless another is asked for.
        has_dataset_yaml: Likewise.
        prepared: It was prepared before.
    """

    storage: Storage
    sizes: Mapping[str, int]
    look: Look
    has_split: bool
    has_dataset_yaml: bool
    prepared: bool


def look_into_folder(flags: PrepareFlags) -> Folder:
    """Find the shards, look at the first samples, and see what was prepared before."""
    storage = open_storage(flags.path)
    sizes = {shard.name: shard.size_bytes for shard in find_shards(storage, exclude=flags.exclude).shards}

    def there(*names: str) -> bool:
        return any(storage.exists(f"{nv_meta.FOLDER}/{name}") for name in names)

    prepared = storage.exists(nv_meta.INFO_JSON) or storage.exists(nv_meta.INFO_YAML)
    return Folder(
        storage=storage,
        sizes=sizes,
        look=look_at_samples(storage, list(sizes)),
        has_split=prepared and there("split.yaml", "split.json"),
        has_dataset_yaml=prepared and there(flags.dataset_yaml_name),
        prepared=prepared,
    )


def decide(flags: PrepareFlags, folder: Folder, console: Console) -> Choices:
    """Settle what is open: by flags alone, by proposals, by menus, or by lines from standard input."""
    choices = _decide(flags, folder, console)
    return choices if choices.split is None else replace(choices, split=_shuffled(flags, choices.split))


def _shuffled(flags: PrepareFlags, request: SplitRequest) -> SplitRequest:
    if flags.shuffle_tars and request.ratio is not None:
        return replace(request, shuffle_seed=_SHUFFLE_SEED)
    return request


def _decide(flags: PrepareFlags, folder: Folder, console: Console) -> Choices:
    given = _given(flags, folder)
    if flags.tar_index_only:
        return Choices()
    if flags.non_interactive:
        if given.split is None and given.ask_split:
            raise click.UsageError(
                "--non-interactive needs the split: --split-ratio 8,1,1 or --split-parts NAME:PATTERN."
            )
        chosen = None if given.spec is None else DatasetYaml(spec=given.spec, field_map=given.field_map)
        return Choices(split=given.split, dataset_yaml=chosen)
    if flags.yes:
        return propose_everything(given)
    show_found(console, flags.path, folder.sizes, folder.look)
    if flags.asks_by_menus:
        return _ask_by_menus(flags, folder, given, console)
    from .prepare_piped import PipedQuestions

    questions = PipedQuestions(
        show=lambda line: console.print(line, soft_wrap=True),
        warn=lambda text: show_notes(console, [text], label="warning", style="yellow"),
    )
    return ask(questions, given)


def _given(flags: PrepareFlags, folder: Folder) -> Given:
    look = folder.look
    likeliest = propose_sample_types(look.part_names)
    return Given(
        shards=list(folder.sizes),
        detected_split=detect_split(list(folder.sizes)),
        part_names=look.part_names,
        json_example=look.json_example,
        sample_types=[*likeliest, *(spec for spec in SAMPLE_TYPES.values() if spec not in likeliest)],
        split=split_of_flags(flags),
        ask_split=not folder.has_split,
        # A prepared dataset without a dataset.yaml is meant to have none until a flag or a menu says otherwise.
        ask_dataset_yaml=not flags.skip_dataset_yaml and (not folder.prepared or flags.sample_type is not None),
        **type_of_flags(flags),
    )


def _ask_by_menus(flags: PrepareFlags, folder: Folder, given: Given, console: Console) -> Choices:
    from .prepare_menus import MenuQuestions, ask_what_to_change

    if folder.prepared and given.split is None and given.spec is None:
        split, dataset_yaml = ask_what_to_change(has_dataset_yaml=folder.has_dataset_yaml)
        given = replace(given, ask_split=split or not folder.has_split, ask_dataset_yaml=dataset_yaml)
    if given.ask_split or given.ask_dataset_yaml:
        show_look(console, folder.look)

    def try_field_map(spec: SampleTypeSpec, field_map: Mapping[str, str]) -> bool:
        choice = DatasetYaml(spec=spec, field_map=field_map)
        return _show_trial(folder, choice, console, trust_code=flags.trust_code)

    def show_choice(choice: SplitRequest) -> None:
        planned = plan_split(folder.storage, _shuffled(flags, choice), list(folder.sizes))
        show_split(console, planned.parts, folder.sizes)
        show_notes(console, planned.warnings, label="warning", style="yellow")

    return ask(MenuQuestions(try_field_map=try_field_map, show_split=show_choice), given)


def _show_trial(folder: Folder, choice: DatasetYaml, console: Console, *, trust_code: bool) -> bool:
    """Make the first sample as chosen, and show it or why it cannot be made."""
    look = folder.look
    if not look.parts:
        return True
    from loader.samples.decoder import SampleDecoder
    from loader.samples.sample_builder import SampleBuilder

    from .preview_render import SampleView, render_sample, terminal_space
    from .preview_source import describe_sample

    title = f"as a {choice.spec.name}: {look.key}"
    try:
        builder = SampleBuilder(
            dataset_config_of(choice),
            meta_folder=folder.storage.local_path(nv_meta.FOLDER),
            decoder=SampleDecoder(),
            trust_code=trust_code,
        )
        parts = {name: data for name, data in look.parts.items() if builder.part_filter(name)}
        sample = builder.build(parts, key=look.key)
        view = SampleView(title=title, fields=describe_sample(sample))
    except EnergonError as error:
        view = SampleView(title=title, fields=(), fault=str(error))
    for line in render_sample(view, terminal_space(console, share=0.5)):
        console.print(line)
    return view.fault is None


def remarks(flags: PrepareFlags, folder: Folder, choices: Choices) -> list[str]:
    """Say what the user may not expect of the choices."""
    notes: list[str] = []
    chosen = choices.dataset_yaml
    if chosen is None and not folder.has_dataset_yaml and not flags.tar_index_only:
        notes.append(
            "no dataset.yaml was asked for, so samples stay crude until there is one;"
            " --sample-type NAME --field-map JSON write it"
        )
    if chosen is not None and chosen.field_map is None and not chosen.spec.crude:
        notes.append(f"fill in .nv-meta/sample_loader.py: it says where the fields of {chosen.spec.name} come from")
    if chosen is not None and chosen.field_map is not None and folder.look.samples:
        notes.extend(_doubts(chosen.field_map, folder.look))
    kept = [name for name, there, new in _kept(folder, choices) if there and new is None]
    if kept and not flags.tar_index_only:
        notes.append(f"kept as before: {' and '.join(kept)}")
    return notes


def _kept(folder: Folder, choices: Choices) -> list[tuple[str, bool, object]]:
    return [
        ("the split", folder.has_split, choices.split),
        ("dataset.yaml", folder.has_dataset_yaml, choices.dataset_yaml),
    ]


def _doubts(field_map: Mapping[str, str], look: Look) -> list[str]:
    """Name fields that the samples looked at cannot fill; later ones may."""
    doubts = []
    for name, expression in field_map.items():
        accesses = parse_field_expression(expression)
        there = [access for access in accesses if access.part in look.part_counts]
        if not there:
            doubts.append(
                f"field {name!r} comes from {expression!r}, but the first {look.samples:,} samples have only"
                f" {', '.join(look.part_names)}"
            )
        elif all(access.path and access.part == "json" and look.json_example is not None for access in there):
            faults = []
            for access in there:
                try:
                    access.value(look.json_example)
                except LookupError as error:
                    faults.append(str(error))
            if len(faults) == len(there):
                doubts.append(f"field {name!r}: in the first sample, {faults[0]}")
    return doubts
