"""The flags of ``energon prepare``: parse and check them before reading any data."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import click

from loader.engine import usable_cores
from loader.errors import ConfigError
from loader.format import DatasetRef
from loader.format.documents import SampleTypeSpec, parse_field_map
from loader.prepare import PreparePlan, SplitRequest, parse_ratio
from loader.storage import is_url

from ....console import is_terminal
from ....dataset_paths import writable
from ....engine_options import EngineChoice
from ..prepare_media import media_filter_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareFlags:
    """The parsed command line; ``energon prepare --help`` describes each flag."""

    ref: DatasetRef  # the dataset, and the documents that are written
    plan: PreparePlan  # with the split of the flags, if any, and without the files: prompts may choose both
    split_ratio: Mapping[str, float] | None
    split_by: str | None
    split_parts: tuple[tuple[str, str], ...]
    shuffle_tars: bool
    sample_type: SampleTypeSpec | None
    field_map: str | None
    skip_dataset_yaml: bool
    non_interactive: bool
    yes: bool
    dry_run: bool
    tar_index_only: bool
    decompress: bool
    remove_originals: bool
    as_json: bool
    engine: EngineChoice  # where shards are scanned

    @classmethod
    def of(cls, path: str, *, engine: EngineChoice, force_overwrite: bool, **options: Any) -> PrepareFlags:
        """Gather the options of the command; options of the plan have the names of the library."""
        names = {"dataset_config": "dataset_yaml_name", "meta_folder": "meta_folder", "trust_code": "trust_code"}
        ref = DatasetRef(path, **{name: options.pop(option) for name, option in names.items()})
        ref = writable(ref, prepares=True, is_trial=options["dry_run"])
        options.pop("tmp_path")  # of megatron-energon, which it moves shards in
        options["media"] = media_filter_of(options)
        workers = max(1, usable_cores() if engine.num_workers is None else engine.num_workers)
        # A split by samples has the proposed ratio, unless a flag gives another one.
        asks_samples = options["split_by"] == "samples" and options["yes"]
        ratio = options["split_ratio"] or (parse_ratio("8,1,1") if asks_samples else None)
        split = None if ratio is None else SplitRequest(ratio=ratio)
        if options["split_parts"]:
            split = SplitRequest(patterns=options["split_parts"])
        of_plan = {each.name: options.pop(each.name) for each in fields(PreparePlan) if each.name in options}
        plan = PreparePlan.of(ref, workers=workers, force=force_overwrite, merge=engine.merge, split=split, **of_plan)
        return cls(ref=ref, plan=plan, engine=engine, **options)

    @property
    def by_samples(self) -> bool | None:
        """True: a ratio applies to the samples of each shard; False: to whole shards; None: no flag says so."""
        return False if self.shuffle_tars else None if self.split_by is None else self.split_by == "samples"

    @property
    def replaces_split(self) -> bool:
        """True if a flag asks for a new split, whose ratio may be the proposed one."""
        return self.split_by == "samples" or (self.split_by is not None and self.yes)

    @property
    def asks_by_menus(self) -> bool:
        """True if prompts are wanted, and there is a terminal for menus."""
        asks = not (self.yes or self.non_interactive or self.tar_index_only)
        return asks and is_terminal(sys.stdin) and is_terminal(sys.stderr if self.as_json else sys.stdout)


_VALID_ANYWHERE = frozenset(
    ("path", "progress", "as_json", "dry_run", "non_interactive", "yes", "force_overwrite", "num_workers", "tmp_path")
)
"""Parameters that no kind of prepare refuses; scripts pass them for all kinds of datasets."""


def given_flags(*apart_from: str) -> list[str]:
    """Return the flags on the command line, except those that are valid anywhere, or of the named parameters."""
    context = click.get_current_context()
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in _VALID_ANYWHERE.union(apart_from, ("help", "debug"))
        and context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
    ]


def check_flags(flags: PrepareFlags) -> None:
    """Reject flags that are invalid or contradict each other."""
    if flags.plan.exclude is not None:
        try:
            re.compile(flags.plan.exclude)
        except re.error as error:
            raise click.BadParameter(f"not a regex: {error}", param_hint="--exclude") from error
    if "/" in flags.ref.dataset_file or not flags.ref.dataset_file.endswith((".yaml", ".yml")):
        raise click.BadParameter("expected a file name such as 'dataset.yaml'", param_hint="--dataset-yaml-name")
    for contradiction in _contradictions(flags):
        raise click.UsageError(contradiction)
    type_of_flags(flags.sample_type, flags.field_map)


def _contradictions(flags: PrepareFlags) -> Iterator[str]:
    media = flags.plan.media.flag if flags.plan.media else ""
    # Flags of what is written.
    if flags.skip_dataset_yaml and (flags.sample_type or flags.field_map):
        yield "--skip-dataset-yaml conflicts with --sample-type and --field-map."
    if flags.tar_index_only and media:
        yield f"--tar-index-only conflicts with {media}."
    if flags.tar_index_only and (flags.split_ratio or flags.split_parts or flags.sample_type):
        yield "--tar-index-only conflicts with --split-ratio, --split-parts and --sample-type."
    if flags.split_by == "samples" and (flags.split_parts or flags.shuffle_tars or flags.tar_index_only):
        yield (
            "--split-by samples applies to a ratio over all shards, so it conflicts with --split-parts, --shuffle-tars"
            " and --tar-index-only."
        )
    if media and flags.plan.compat is False:
        yield f"{media} writes to index.sqlite, so it conflicts with --no-compat."
    # Flags that write next to the shards.
    writing = {
        "--fix-duplicates": flags.plan.fix_duplicates,
        "--compat": flags.plan.compat is True,
        "--decompress": flags.decompress,
        media: bool(media),
    }
    for flag, is_given in writing.items():
        if is_given and flags.ref.find_meta().origin != "data":
            yield f"{flag} writes files next to the shards, so it conflicts with --meta-folder."
    for flag in ("--fix-duplicates", "--decompress"):
        if writing[flag] and is_url(flags.ref.path):
            yield f"{flag} writes shards, which is not done in an object store: run it on a copy on this machine."
    # Flags of clusters, and of prompts.
    if flags.engine.merge and flags.decompress:
        yield "--decompress conflicts with --merge: decompress the shards before they are scanned."
    if flags.remove_originals and not flags.decompress:
        yield "--remove-originals requires --decompress."
    if flags.yes and flags.non_interactive:
        yield "--yes conflicts with --non-interactive: pass one of them."


def type_of_flags(spec: SampleTypeSpec | None, field_map: str | None) -> dict[str, Any]:
    """Return the ``spec`` and ``field_map`` that ``--sample-type`` and ``--field-map`` define, None for others."""
    if field_map is None:
        return {"spec": spec}
    if spec is None:
        raise click.UsageError("--field-map requires --sample-type.")
    if spec.crude:
        raise click.UsageError("--field-map: crude samples have no fields.")
    return {"spec": spec, "field_map": _parse_field_map_flag(field_map, spec)}


def _parse_field_map_flag(text: str, spec: SampleTypeSpec) -> dict[str, str]:
    """Parse ``--field-map``, a JSON object with an expression for each field of a sample type."""
    # Parse the object.
    try:
        document = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--field-map") from error
    if not isinstance(document, dict):
        raise click.BadParameter('expected an object such as {"image": "jpg"}', param_hint="--field-map")
    # Collect all faults of its fields, so that the user can fix them at once.
    known = {known.name for known in spec.fields}
    faults = [f"{spec.name} has no field {name!r}; it has {', '.join(known)}" for name in document if name not in known]
    faults += [f"{name!r} is required by {spec.name} and missing" for name in spec.required if name not in document]
    try:
        parse_field_map(document, file="--field-map")
    except ConfigError as error:
        faults += [f"{fault.place.partition('.')[2]!r}: {fault.message}" for fault in error.faults]
    if faults:
        raise click.BadParameter("; ".join(faults), param_hint="--field-map")
    # Fields are written in the order of the sample type.
    return {spec_field.name: document[spec_field.name] for spec_field in spec.fields if spec_field.name in document}


def check_consent(flags: PrepareFlags, *, has_split: bool, has_dataset_yaml: bool) -> None:
    """Require ``--force-overwrite`` if flags would replace edited files and no prompt confirms it."""
    replaced = [
        name
        for name, exists, requested in (
            ("the split", has_split, flags.split_ratio or flags.split_parts or flags.replaces_split),
            (flags.ref.dataset_file, has_dataset_yaml, flags.sample_type),
        )
        if exists and requested
    ]
    if replaced and not (flags.plan.force or flags.yes or flags.dry_run or flags.asks_by_menus):
        raise click.UsageError(
            f"The dataset is already prepared, and these flags would replace {' and '.join(replaced)}:"
            " add --force-overwrite to allow it, or omit the flags to keep the current content."
        )
