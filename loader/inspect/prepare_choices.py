"""What is found in a folder, and what is decided about it: by flags, proposals, menus or lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from loader.errors import EnergonError
from loader.format import nv_meta
from loader.format.documents.sample_types import SAMPLE_TYPES, SampleTypeSpec
from loader.format.prepare.plan import SplitRequest
from loader.format.prepare.proposals import propose_sample_types
from loader.format.prepare.shards import find_shards
from loader.format.prepare.split import plan_split
from loader.format.prepare.split_plan import detect_split
from loader.storage import Storage, open_storage

from ..console import plural, show_progress
from .choices import Choices, DatasetYaml
from .doubts import field_map_doubts
from .flags import PrepareFlags, split_of_flags, type_of_flags
from .look import Look, look_at_samples
from .report import show_found, show_look, show_notes, show_split
from .template import dataset_config_of
from .wizard import Given, ask, propose_everything

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Folder", "decide", "doubts", "look_into_folder", "remarks"]

_FAR_OFF = 5  # percent
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
    from .piped import PipedQuestions

    questions = PipedQuestions(given.proposed_ratio, show=lambda line: console.print(line, soft_wrap=True))
    return ask(questions, given)


def _given(flags: PrepareFlags, folder: Folder) -> Given:
    look = folder.look
    likeliest = propose_sample_types(look.part_names, look.json_example)
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
    from .menus import MenuQuestions, ask_what_to_change

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

    questions = MenuQuestions(list(folder.sizes), try_field_map=try_field_map, show_split=show_choice)
    return ask(questions, given)


def _show_trial(folder: Folder, choice: DatasetYaml, console: Console, *, trust_code: bool) -> bool:
    """Make the first sample as chosen, and show it or why it cannot be made."""
    look = folder.look
    if not look.parts:
        return True
    show_progress("decoding the first sample…")
    from loader.samples.building.sample_builder import SampleBuilder
    from loader.samples.decoding.decoder import SampleDecoder

    from ..preview.render import SampleView, render_sample, terminal_space
    from ..preview.source import describe_sample

    title = f"as a {choice.spec.name}: {look.key}"
    try:
        builder = SampleBuilder(
            dataset_config_of(choice),
            meta_folder=folder.storage.local_path(nv_meta.FOLDER),
            decoder=SampleDecoder(),
            trust_code=trust_code,
        )
        sample = builder.build(look.parts, key=look.key)  # a field map decodes what it needs
        meta_folder = folder.storage.local_path(nv_meta.FOLDER)
        faults = field_map_doubts(choice, look, meta_folder=meta_folder, trust_code=trust_code)
        view = SampleView(title=title, fields=describe_sample(sample), fault="\n".join(faults) or None)
    except EnergonError as error:
        # What the error advises to do is about datasets that are written already.
        view = SampleView(title=title, fields=(), fault=error.message)
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
    if choices.split is not None and choices.split.ratio is not None:
        notes.extend(_real_shares(folder, choices.split, choices.split.ratio))
    kept = [name for name, there, new in _kept(folder, choices) if there and new is None]
    if kept and not flags.tar_index_only:
        notes.append(f"kept as before: {' and '.join(kept)}")
    return notes


def doubts(flags: PrepareFlags, folder: Folder, choices: Choices) -> list[str]:
    """Say why the first sample cannot be made as chosen, where it cannot."""
    if choices.dataset_yaml is None:
        return []
    meta_folder = folder.storage.local_path(nv_meta.FOLDER)
    return field_map_doubts(choices.dataset_yaml, folder.look, meta_folder=meta_folder, trust_code=flags.trust_code)


def _real_shares(folder: Folder, request: SplitRequest, ratio: Mapping[str, float]) -> list[str]:
    """Say what a ratio comes to where whole shards are far from it."""
    parts = plan_split(folder.storage, request, list(folder.sizes)).parts
    total = sum(ratio.values())
    wanted = {name: 100 * share / total for name, share in ratio.items()}
    real = {name: 100 * len(parts.get(name, ())) / len(folder.sizes) for name in ratio}
    if all(abs(real[name] - wanted[name]) <= _FAR_OFF for name in ratio):
        return []
    count = len(folder.sizes)
    shares = ", ".join(f"{name} {real[name]:.0f} % ({wanted[name]:.0f} % asked for)" for name in ratio)
    return [f"shards are never divided, so {plural(count, 'shard')} {'comes' if count == 1 else 'come'} to {shares}"]


def _kept(folder: Folder, choices: Choices) -> list[tuple[str, bool, object]]:
    return [
        ("the split", folder.has_split, choices.split),
        ("dataset.yaml", folder.has_dataset_yaml, choices.dataset_yaml),
    ]
