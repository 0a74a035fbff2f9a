"""The command line of ``energon prepare``: read and checked, before anything is looked at."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any

import click

from loader.errors import ConfigError
from loader.format.media.kind import MediaFilter
from loader.format.prepare.plan import SplitRequest
from loader.format.prepare.split_plan import parse_ratio, parse_split_part

from ..console import is_terminal
from .choices import parse_field_map_flag, parse_sample_type_flag

__all__ = ["PrepareFlags", "check_consent", "check_flags", "split_of_flags", "type_of_flags"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareFlags:
    """What the command line said; the options' help says what each means."""

    path: str
    split_ratio: str | None
    split_parts: tuple[str, ...]
    shuffle_tars: bool
    exclude: str | None
    sample_type: str | None
    field_map: str | None
    skip_dataset_yaml: bool
    dataset_yaml_name: str
    non_interactive: bool
    yes: bool
    dry_run: bool
    force_overwrite: bool
    tar_index_only: bool
    fix_duplicates: bool
    compat: bool | None
    num_workers: int | None
    tmp_path: str | None
    progress: bool
    as_json: bool
    trust_code: bool
    media: MediaFilter | None

    @property
    def asks_by_menus(self) -> bool:
        """Whether there is a terminal to ask on, and something to ask."""
        asks = not (self.yes or self.non_interactive or self.tar_index_only)
        return asks and is_terminal(sys.stdin) and is_terminal(sys.stderr if self.as_json else sys.stdout)


def check_flags(flags: PrepareFlags) -> None:
    """Refuse flags that contradict each other or cannot be read.

    Raises:
        click.UsageError: Says which, and why.
    """
    if flags.exclude is not None:
        try:
            re.compile(flags.exclude)
        except re.error as error:
            raise click.BadParameter(f"not a regex: {error}", param_hint="--exclude") from error
    if flags.skip_dataset_yaml and (flags.sample_type or flags.field_map):
        raise click.UsageError(
            "--skip-dataset-yaml contradicts --sample-type and --field-map, which say what to write."
        )
    if flags.field_map and not flags.sample_type:
        raise click.UsageError("--field-map needs --sample-type, whose fields it fills.")
    if "/" in flags.dataset_yaml_name or not flags.dataset_yaml_name.endswith((".yaml", ".yml")):
        raise click.BadParameter("expected a file name such as 'dataset.yaml'", param_hint="--dataset-yaml-name")
    if flags.tar_index_only and flags.media:
        raise click.UsageError(f"--tar-index-only only indexes; {flags.media.flag} needs a run without it.")
    if flags.tar_index_only and (flags.split_ratio or flags.split_parts or flags.sample_type):
        raise click.UsageError("--tar-index-only writes neither a split nor a dataset.yaml.")
    if flags.media and flags.compat is False:
        raise click.UsageError(f"{flags.media.flag} writes into index.sqlite, which --no-compat leaves out.")
    if flags.yes and flags.non_interactive:
        raise click.UsageError("--yes takes proposals, --non-interactive only what flags say: give one of them.")
    split_of_flags(flags)
    type_of_flags(flags)


def split_of_flags(flags: PrepareFlags) -> SplitRequest | None:
    """Give the split that flags settle, if they do."""
    try:
        if flags.split_parts:
            return SplitRequest(patterns=tuple(parse_split_part(text) for text in flags.split_parts))
        if flags.split_ratio is not None:
            return SplitRequest(ratio=parse_ratio(flags.split_ratio))
    except ConfigError as error:
        hint = "--split-parts" if flags.split_parts else "--split-ratio"
        raise click.BadParameter(
            f"{error.message}; {error.hint}" if error.hint else error.message, param_hint=hint
        ) from error
    return None


def type_of_flags(flags: PrepareFlags) -> dict[str, Any]:
    """Give ``spec`` and ``field_map`` as far as flags settle them."""
    if flags.sample_type is None:
        return {}
    spec = parse_sample_type_flag(flags.sample_type)
    if flags.field_map is None:
        return {"spec": spec}
    if spec.crude:
        raise click.UsageError("--field-map: crude samples have no fields to fill.")
    return {"spec": spec, "field_map": parse_field_map_flag(flags.field_map, spec)}


def check_consent(flags: PrepareFlags, *, has_split: bool, has_dataset_yaml: bool) -> None:
    """Ask for ``--force-overwrite`` where flags would replace what the user may have edited, and nobody is asked.

    Raises:
        click.UsageError: Names what would be replaced.
    """
    replaced = [
        what
        for what, there, wanted in (
            ("the split", has_split, flags.split_ratio or flags.split_parts),
            (flags.dataset_yaml_name, has_dataset_yaml, flags.sample_type),
        )
        if there and wanted
    ]
    if replaced and not (flags.force_overwrite or flags.yes or flags.dry_run or flags.asks_by_menus):
        raise click.UsageError(
            f"The dataset is prepared already, and these flags would replace {' and '.join(replaced)}:"
            " add --force-overwrite to allow that, or leave the flags out to keep what is there."
        )
