"""The flags of ``energon prepare``: parse and check them before reading any data."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import click

from loader.errors import ConfigError
from loader.format import DatasetRef
from loader.format.documents import SampleTypeSpec, parse_field_expression, sample_type_of_name
from loader.format.media import MediaFilter
from loader.format.prepare import ScanMode, SplitRequest, parse_ratio, parse_split_part
from loader.storage import split_url

from ....console import is_terminal
from ....engine_options import EngineChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareFlags:
    """The parsed command line; ``energon prepare --help`` describes each flag."""

    ref: DatasetRef  # the dataset, and the documents that are written
    split_ratio: str | None
    split_by: str | None
    split_parts: tuple[str, ...]
    shuffle_tars: bool
    exclude: str | None
    sample_type: str | None
    field_map: str | None
    skip_dataset_yaml: bool
    non_interactive: bool
    yes: bool
    dry_run: bool
    force_overwrite: bool
    tar_index_only: bool
    decompress: bool
    remove_originals: bool
    fix_duplicates: bool
    compat: bool | None
    tmp_path: str | None
    strict: bool
    as_json: bool
    max_json_bytes: int
    media: MediaFilter | None
    scan: ScanMode
    engine: EngineChoice  # where shards are scanned

    @property
    def path(self) -> str:
        return self.ref.path

    @property
    def dataset_yaml_name(self) -> str:
        return self.ref.dataset_config or "dataset.yaml"

    @property
    def is_at_url(self) -> bool:
        return bool(split_url(self.path)[0])

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


def given_flags(*, apart_from: AbstractSet[str]) -> list[str]:
    """Return the flags on the command line, except the flags of the named parameters."""
    context = click.get_current_context()
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in {*apart_from, "help", "debug"}
        and context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
    ]


def check_flags(flags: PrepareFlags) -> None:
    """Reject flags that are invalid or contradict each other."""
    if flags.exclude is not None:
        try:
            re.compile(flags.exclude)
        except re.error as error:
            raise click.BadParameter(f"not a regex: {error}", param_hint="--exclude") from error
    if "/" in flags.dataset_yaml_name or not flags.dataset_yaml_name.endswith((".yaml", ".yml")):
        raise click.BadParameter("expected a file name such as 'dataset.yaml'", param_hint="--dataset-yaml-name")
    for contradiction in _contradictions(flags):
        raise click.UsageError(contradiction)
    split_of_flags(flags)
    type_of_flags(flags.sample_type, flags.field_map)


def _contradictions(flags: PrepareFlags) -> Iterator[str]:
    media = flags.media.flag if flags.media else ""
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
    if media and flags.compat is False:
        yield f"{media} writes to index.sqlite, so it conflicts with --no-compat."
    # Flags that write next to the shards.
    writing = {
        "--fix-duplicates": flags.fix_duplicates,
        "--compat": flags.compat is True,
        "--decompress": flags.decompress,
        media: bool(media),
    }
    for flag, is_given in writing.items():
        if is_given and flags.ref.has_other_folder:
            yield f"{flag} writes files next to the shards, so it conflicts with --meta-folder."
    for flag in ("--fix-duplicates", "--decompress"):
        if writing[flag] and flags.is_at_url:
            yield f"{flag} writes shards, which is not done in an object store: run it on a copy on this machine."
    # Flags of clusters, and of prompts.
    if flags.engine.merge and flags.decompress:
        yield "--decompress conflicts with --merge: decompress the shards before they are scanned."
    if flags.remove_originals and not flags.decompress:
        yield "--remove-originals requires --decompress."
    if flags.yes and flags.non_interactive:
        yield "--yes conflicts with --non-interactive: pass one of them."


def split_of_flags(flags: PrepareFlags) -> SplitRequest | None:
    """Return the split that the flags define; None without a flag for it."""
    try:
        if flags.split_parts:
            return SplitRequest(patterns=tuple(parse_split_part(text) for text in flags.split_parts))
        if flags.split_ratio is not None:
            return SplitRequest(ratio=parse_ratio(flags.split_ratio))
        if flags.split_by == "samples" and flags.yes:
            return SplitRequest(ratio=parse_ratio("8,1,1"))
    except ConfigError as error:
        hint = "--split-parts" if flags.split_parts else "--split-ratio"
        raise click.BadParameter(
            f"{error.message}; {error.hint}" if error.hint else error.message, param_hint=hint
        ) from error
    return None


def type_of_flags(sample_type: str | None, field_map: str | None) -> dict[str, Any]:
    """Return ``spec`` and ``field_map``, each only if ``--sample-type`` or ``--field-map`` defines it."""
    if sample_type is None:
        if field_map is not None:
            raise click.UsageError("--field-map requires --sample-type.")
        return {}
    try:
        spec = sample_type_of_name(sample_type)
    except ConfigError as error:
        raise click.BadParameter(error.message, param_hint="--sample-type") from error
    if field_map is None:
        return {"spec": spec}
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
    for name, expression in document.items():
        if not isinstance(expression, str):
            faults.append(f"{name!r}: expected text such as 'jpg' or 'json[caption]', found {expression!r}")
            continue
        try:
            parse_field_expression(expression)
        except ValueError as error:
            faults.append(f"{name!r}: {error}")
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
            (flags.dataset_yaml_name, has_dataset_yaml, flags.sample_type),
        )
        if exists and requested
    ]
    if replaced and not (flags.force_overwrite or flags.yes or flags.dry_run or flags.asks_by_menus):
        raise click.UsageError(
            f"The dataset is already prepared, and these flags would replace {' and '.join(replaced)}:"
            " add --force-overwrite to allow it, or omit the flags to keep the current content."
        )
