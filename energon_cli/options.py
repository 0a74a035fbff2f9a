"""Options that several commands share, each with one spelling, and messages about wrong values of choices."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .library import name_here
from .settings import output_settings

if TYPE_CHECKING:
    from loader.convert import ShardLayout
    from loader.extensions import Group
    from loader.inspect.runs import PlannedRun

F = TypeVar("F", bound=Callable[..., Any])


_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(_ctx: click.Context, _parameter: click.Parameter, text: str) -> int:
    """Parse a size in bytes, as the callback of an option.

    >>> [parse_size(None, None, text) for text in ("500MB", "1.5 GiB", "1000")]
    [500000000, 1610612736, 1000]
    """
    match = _SIZE.fullmatch(text.strip())
    amount, power, binary = match.groups() if match else ("0", "", "")
    size_bytes = int(float(amount) * (1024 if binary else 1000) ** _POWERS[power.lower()])
    if size_bytes < 1:
        raise click.BadParameter(f"expected a size such as 500MB, 1GB or 1GiB, found {text!r}")
    return size_bytes


def parse_size_or_megabytes(context: click.Context, parameter: click.Parameter, text: str) -> int:
    """Parse a size as :func:`parse_size` does; a number without a unit counts megabytes, as it always has in extract.

    >>> [parse_size_or_megabytes(None, None, text) for text in ("500", "1GB", "0.5")]
    [500000000, 1000000000, 500000]
    """
    has_unit = not text.strip().replace(".", "", 1).isdecimal()
    return parse_size(context, parameter, text if has_unit else f"{text}MB")


def parse_names(_context: click.Context, parameter: click.Parameter, given: Any) -> tuple[str, ...]:
    """Split lists with commas; an option that may be repeated joins its lists, and is empty without one."""
    values = (given or ()) if parameter.multiple else [] if given is None else [given]
    names = tuple(name.strip() for value in values for name in value.split(",") if name.strip())
    if values and not names:
        raise click.BadParameter("expected a name, or several with commas between them")
    return names


class Parsed(click.types.StringParamType):
    """A text that a function of the library parses, which is imported when a value is given.

    Args:
        keeps_text: The function only checks the text, which stays the value.
    """

    def __init__(self, module: str, function: str, *, keeps_text: bool = False) -> None:
        self._module, self._function, self._keeps_text = module, function, keeps_text

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from loader.errors import ConfigError

        try:
            made = getattr(import_module(name_here(self._module)), self._function)(value)
        except ConfigError as error:
            self.fail(f"{error.message}; {error.hint}" if error.hint else error.message, param, ctx)
        return value if self._keeps_text else made


def parse_pairs(_context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Split each text of a repeated option, such as ``jpg=image``, into a name and its value."""
    pairs = [text.partition("=") for text in given]
    if not all(name and value for name, _, value in pairs):
        raise click.BadParameter(f"expected {parameter.metavar}")
    return {name: value for name, _, value in pairs}


def _class_name(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    if given is not None and not all(given.partition(":")):
        raise click.BadParameter(f"expected module:Class, found {given!r}")
    return given


def _one_name(context: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    names = parse_names(context, parameter, given)
    if len(names) > 1:
        raise click.BadParameter(f"this command takes one name, found {len(names)}")
    return names[0] if names else None


def _change_settings(context: click.Context, parameter: click.Parameter, given: Any) -> None:
    """Change the settings of this run, if the option is given; it may be given before the command's name, too."""
    settings, name = output_settings(), parameter.name
    if name == "progress":
        if given is not None and settings.progress is not False:  # --no-progress before the command's name holds
            settings.progress = given
    elif given and name in ("quiet", "no_progress"):
        settings.quiet |= name == "quiet"
        settings.progress = False
    elif given and name == "verbose":
        settings.verbosity += given  # before the command's name and after it
        logging.getLogger("loader").setLevel(settings.log_level)
    elif given and name == "color":
        settings.color = given
        context.color = {"always": True, "never": False}.get(given, context.color)
    elif given:
        settings.debug = True


def _shared(*spellings: str, **settings: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    return spellings, settings


def _flag(*spellings: str, **settings: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    return _shared(*spellings, is_flag=True, **settings)


flag_option = partial(click.option, is_flag=True)
"""Add an option without a value."""

NUMBER: dict[str, Any] = {"metavar": "N", "type": click.IntRange(min=1)}
"""Settings of an option that takes a number from 1 on."""

INDEX: dict[str, Any] = {"metavar": "N", "type": click.IntRange(min=0)}
"""Settings of an option that takes a number from 0 on."""

SIZE: dict[str, Any] = {"metavar": "SIZE", "callback": parse_size}
"""Settings of an option that takes a size in bytes."""

_NAMES: dict[str, Any] = {"metavar": "A,B", "callback": parse_names}
_FILE: dict[str, Any] = {"metavar": "NAME"}

_SHARED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "allow_edited_state": _flag(
        "--allow-edited-state", help="Accept states that were edited by hand, and write new checksums."
    ),
    "batch_size": _shared("--batch-size", **NUMBER),
    "by_shard": _flag("--by-shard", help="Write a folder for each shard, with --format files."),
    "compat": _shared(
        "--compat/--no-compat",
        default=None,
        help="Write megatron-energon's index files, and fail if they cannot hold the dataset; or never write them."
        " Without either, they are written where they can hold it.",
    ),
    "dataset_config": _shared(
        "--dataset-config", **_FILE, default="dataset.yaml", help="Use this dataset file in .nv-meta."
    ),
    "drop_parts": _shared("--drop-parts", **_NAMES, multiple=True, help="Drop these parts; `*` matches any text."),
    "dry_run": _flag("--dry-run", help="Show the result without writing it."),
    "duplicates": _flag("--duplicates"),
    "duplicates_of": _shared(
        "--duplicates-of", metavar="PART", help="Compare only this part, and otherwise do as --duplicates does."
    ),
    "field_map": _shared(
        "--field-map", metavar="JSON", help='Map fields to parts: {"image": "jpg", "caption": "txt"}.'
    ),
    "filter": _shared("--filter", "filter_name", metavar="NAME", help="Keep only samples that pass this named filter."),
    "force_overwrite": _flag("--force-overwrite", help="Replace existing files in DEST."),
    "gpus_per_worker": _shared(
        "--gpus-per-worker", metavar="G", type=click.FloatRange(min=0), default=0.0, help="Give each worker G GPUs."
    ),
    "json": _flag("--json", "as_json", help="Print the result as JSON."),
    "keep_results": _flag("--keep-results", help="Reuse the results of an unfinished run although its options differ."),
    "keep_parts": _shared(
        "--parts", "keep_parts", **_NAMES, multiple=True, help="Keep only these parts; `*` matches any text."
    ),
    "key": _shared("--key", metavar="KEY", help="List the steps that used this sample."),
    "key_column": _shared("--key-column", metavar="COLUMN", help="Take the samples' keys from this column of a table."),
    "limit": _shared("-n", "--limit", **NUMBER, help="Keep only the first N samples."),
    "max_failures": _shared(
        "--max-failures", **INDEX, default=0, help="Write results even if up to N samples failed; they have no value."
    ),
    "max_json_bytes": _shared("--max-json-bytes", **SIZE, help="Skip JSON parts above this size, and report them."),
    "meta_folder": _shared("--meta-folder", metavar="DIR", help="Use this folder instead of PATH/.nv-meta."),
    "near_duplicates": _shared("--near-duplicates", metavar="COLUMN"),
    "num_workers": _shared("--num-workers", **NUMBER, help="Run this many worker processes.  [default: one per core]"),
    "packing_buffer_size": _shared("--packing-buffer-size", **NUMBER),
    "place": _shared(
        "--place", metavar="PLACE", help="Read the states at this place of a file with several: loaders.train."
    ),
    "progress": _shared(
        "--progress/--no-progress",
        default=None,
        expose_value=False,
        callback=_change_settings,
        help="Show a progress bar on a terminal; in a log, print a line every 30 s, or every 5 s with --progress.",
    ),
    "restart": _flag("--restart", help="Discard the results of an unfinished run, and start over."),
    "retry_failed": _flag("--retry-failed", help="Continue an unfinished run, and try its failed samples again."),
    "sample_type": _shared(
        "--sample-type",
        metavar="NAME",
        type=Parsed("loader.format.documents", "sample_type_of_name"),
        help="Set the type of the samples: CaptioningSample, CrudeWebdataset, …",
    ),
    "samples_per_shard": _shared("--samples-per-shard", **NUMBER, default=10_000, help="Limit a shard to N samples."),
    "seed": _shared("--seed", metavar="N", type=int, default=0, help="Set the seed of the choice."),
    "shard_bytes": _shared("--shard-size", "shard_bytes", **SIZE, default="1GB", help="Limit a shard to this size."),
    "shuffle": _shared("--shuffle/--no-shuffle", default=False, help="Put the samples into a random order."),
    "split_config": _shared("--split-config", **_FILE, default="split.yaml", help="Use this split file in .nv-meta."),
    "split_part": _shared(
        "--split-parts", "split_part", metavar="NAME", callback=_one_name, help="Keep only samples of this split part."
    ),
    "split_parts": _shared("--split-parts", **_NAMES, help="Keep only these split parts, or splits of a metadataset."),
    "split_ratio": _shared("--split-ratio", metavar="8,1,1", type=Parsed("loader.prepare", "parse_ratio")),
    "step": _shared("--step", **INDEX, multiple=True, help="List the samples of this step, from 0.  [repeatable]"),
    "steps": _shared("--steps", **NUMBER),
    "strict": _flag("--strict", help="Publish nothing if any part of the input would be left out, or fails."),
    "task_encoder": _shared(
        "--task-encoder", metavar="M:CLASS", callback=_class_name, help="Run the hooks of this task encoder."
    ),
    "threshold": _shared(
        "--threshold",
        metavar="S",
        type=click.FloatRange(min=0, max=1, min_open=True),
        help="Set the least similarity of near-duplicates.  [default: 0.95 of cosines, 0.78 of phash, 0.8 of minhash]",
    ),
    "tmp_path": _shared("--tmp-path", metavar="DIR", help="Accept megatron-energon's flag, which has no effect here."),
    "trust_code": _shared(
        "--trust-code", is_flag=True, envvar="ENERGON_TRUST_CODE", help="Run Python files of the dataset."
    ),
    "undo": _flag("--undo", "is_undo", help="Undo the last change."),
    "version": _shared(
        "--version",
        metavar="TEXT",
        default="",
        show_default=False,
        help="Name a version; change it when results change although the file does not.",
    ),
    "where": _shared(
        "--where",
        metavar="CONDITION",
        type=Parsed("loader.dataset.query", "Condition", keeps_text=True),
        help="Keep only samples that meet this condition, such as 'jpg.width >= 512'.",
    ),
    "yes": _flag("--yes", help="Never prompt; accept the proposals for all choices without a flag."),
}
"""The flags and settings of each shared option, by the name of its parameter."""


def combined(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds options to a command, in this order."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def shared_options(*names: str, flags: Sequence[str] = (), **changed: Any) -> Callable[[F], F]:
    """Return a decorator that adds shared options to a command, in this order.

    Args:
        names: Keys of the options: ``json``, ``progress`` …
        flags: More spellings of them, of megatron-energon.
        changed: Settings of these options that differ here, such as ``help``.
    """
    every = map(_SHARED.__getitem__, names)
    return combined(*(click.option(*spellings, *flags, **{**settings, **changed}) for spellings, settings in every))


def layout_of(options: dict[str, Any]) -> ShardLayout:
    """Pop the options about the shards to write, and return their layout."""
    from loader.convert import ShardLayout

    given = ("shard_bytes", "samples_per_shard", "split_ratio", "shuffle_seed")
    return ShardLayout(**{name: options.pop(name) for name in given})


def shuffle_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add ``--shuffle`` and ``--seed``; the function gets the seed as ``shuffle_seed``, None without ``--shuffle``."""

    @shared_options("shuffle")
    @shared_options("seed", default=None, help="Set the seed of --shuffle.  [default: 0]")
    @wraps(function)
    def with_seed(*arguments: Any, shuffle: bool, seed: int | None, **others: Any) -> None:
        if seed is not None and not shuffle:
            raise click.UsageError("--seed needs --shuffle.")
        function(*arguments, shuffle_seed=(seed or 0) if shuffle else None, **others)

    return with_seed


COMMON_OPTIONS = ("quiet", "verbose", "color", "no_progress", "debug")
"""Names of the options of :func:`common_options`."""


def common_options(taken: Iterable[str] = ()) -> list[click.Option]:
    """Create ``--quiet``, ``--verbose``, ``--color``, ``--no-progress`` and ``--debug``, without taken flags."""
    taken = set(taken)
    options = (
        _flag("-q", "--quiet", callback=_change_settings, help="Print only results and errors."),
        _shared(
            "-v",
            "--verbose",
            count=True,
            show_default=False,
            callback=_change_settings,
            help="Print messages of the library, time and memory; -vv prints more.",
        ),
        _shared(
            "--color",
            type=NameChoice(["auto", "always", "never"]),
            callback=_change_settings,
            help="Use colours and links; auto uses them on terminals.",
        ),
        _flag("--no-progress", callback=_change_settings, help="Show no progress."),
        _flag("--debug", callback=_change_settings, help="Show the traceback of an error."),
    )
    # A command may have an option of such a name, as -q or -v; then only the other spelling is added.
    named = [([name for name in names if name not in taken], settings) for names, settings in options]
    return [click.Option(names, expose_value=False, **settings) for names, settings in named if names]


if TYPE_CHECKING:
    _AnyChoice = click.Choice[str]
else:
    _AnyChoice = click.Choice  # before click 8.2 it takes no type


class NameChoice(_AnyChoice):
    """Accept some names; a message about another one suggests a similar name.

    Args:
        group: The group of :mod:`loader.extensions` to which installed packages add names; None for no more names.
    """

    def __init__(self, choices: Sequence[str], group: Group | None = None, *, case_sensitive: bool = True) -> None:
        super().__init__(choices, case_sensitive=case_sensitive)
        self._group = group

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if self._group is not None and value not in self.choices:
            from loader.extensions import extension_names

            self.choices = (*self.choices, *(name for name in extension_names(self._group) if name not in self.choices))
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            from difflib import get_close_matches

            near = get_close_matches(str(value).lower(), [str(choice) for choice in self.choices], n=1)
            if near:
                vars(error)["message"] = f"{error.message} Did you mean {near[0]!r}?"  # type checkers take it for final
            raise


def suggest_choices(parameters: Iterable[click.Parameter]) -> None:
    """Let messages about wrong values of choices suggest a similar value."""
    for parameter in parameters:
        if type(parameter.type) is click.Choice:
            parameter.type = NameChoice(parameter.type.choices, case_sensitive=parameter.type.case_sensitive)


def run_options_of(
    ranks: click.IntRange | Parsed, *, default: Any = 1, text: str = "Run on N ranks."
) -> Callable[[F], F]:
    """Return a decorator that adds the options which describe a run.

    Args:
        ranks: Type of the number of ranks, or of several numbers to compare.
        default: Its default.
        text: Its help text.
    """
    return combined(
        shared_options("batch_size", default=1, help="Put this many samples into a micro-batch."),
        click.option("--world-size", metavar="N", type=ranks, default=default, help=text),
        shared_options("num_workers", **INDEX, default=0, help="Give each rank this many workers."),
        shared_options("split_part", default="train", help="Read this part of the split."),
        click.option("--shuffle-buffer-size", **INDEX, help="Shuffle freely within this many samples."),
        click.option("--max-samples-per-sequence", **NUMBER, help="Read slices of this many samples."),
        click.option("--lanes", **NUMBER, help="Set the number of lanes, which a restored run keeps."),
        shared_options("seed", help="Set the seed of the run (seed_offset=)."),
        shared_options("filter", help="Apply this filter to every dataset (filter_name=)."),
        shared_options("trust_code"),
    )


run_options = run_options_of(click.IntRange(min=1))
"""Add the options that :func:`plan_run` takes."""

RUN_OPTIONS = (
    "batch_size",
    "world_size",
    "num_workers",
    "split_part",
    "shuffle_buffer_size",
    "max_samples_per_sequence",
    "lanes",
    "seed",
    "filter_name",
)
"""The parameters of these options that a checkpoint has."""


def _limits(flag: str, text: str) -> Callable[[F], F]:
    kind = Parsed("loader.inspect.runs", "parse_capacity")
    return click.option(flag, metavar="COST=N", type=kind, multiple=True, help=f"{text}  [repeatable]")


plan_options = combined(
    click.option(
        "--balance", metavar="COST", multiple=True, help="Make micro-batches cost the same (balance=).  [repeatable]"
    ),
    click.option("--packing", metavar="PACKER", help="Pack samples by best_fit, first_fit_decreasing …"),
    _limits("--pack-capacity", "Limit a cost of a pack (pack_capacity=)."),
    _limits("--batch-cost", "Fill micro-batches to a cost (batch_cost=)."),
    click.option("--padded", is_flag=True, help="Pad micro-batches to their longest sample (padded=True)."),
    click.option(
        "--oversized",
        type=click.Choice(["error", "skip", "alone", "hook"]),
        help="Choose what becomes of a sample above the capacity (oversized=).",
    ),
    click.option("--plan-window", **NUMBER, help="Plan N samples of a lane together."),
)
"""Add the options that plan micro-batches or packs."""

PLAN_OPTIONS = ("balance", "packing", "pack_capacity", "batch_cost", "padded", "oversized", "plan_window")
"""The parameters of these options, which have the names of arguments of ``get_train_dataset``."""


def take_planning(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the arguments that plan from the options of a command, and return them; pairs of options are a dict."""
    planning: dict[str, Any] = {}
    for name in PLAN_OPTIONS:
        value = options.pop(name, None)
        if isinstance(value, tuple):
            value = dict(value) if all(isinstance(each, tuple) for each in value) else [*value]
        planning |= {name: value} if value else {}
    return planning


def check_lanes(lanes: int | None, ranks: int) -> None:
    """Refuse lanes that the ranks of a run cannot share."""
    if lanes is not None and lanes % ranks:
        raise click.BadParameter(f"expected a multiple of --world-size {ranks}, found {lanes}", param_hint="--lanes")


def plan_run(path: str, *, seed: int, **options: Any) -> PlannedRun:
    """Return the run that the options describe."""
    from loader.inspect.runs import PlannedRun, RunRequest

    check_lanes(options["lanes"], options["world_size"])
    return PlannedRun(RunRequest(path=path, seed_offset=seed, planning=take_planning(options), **options))
