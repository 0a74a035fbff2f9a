"""Parse and write ``split.yaml`` and ``split.json``, the shards of each split part and what is excluded."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import yaml
from msgspec import Meta, Struct

from ...errors import ConfigError, Fault, escape_controls
from ..data_kind import SHARD_SUFFIXES
from ..nv_meta import FILTER_NAME, SPLIT_YAML
from .brace_patterns import MAX_NAMES, compact_names, expand_pattern
from .messages import short_key, short_text
from .schema import converted
from .subset import SubsetRange, bounds_of, parse_range, resolve_subset
from .yaml_document import error_of_yaml, parse_yaml

# Keys that may be repeated: files with an empty ``exclude`` and a later one are in use with megatron-energon.
_LAST_WINS = ("exclude",)

_Names = (
    Annotated[list[Annotated[str, Meta(min_length=1, description="a name")]], Meta(description="a list of names")]
    | None
)
_PartName = Annotated[str, Meta(min_length=1, description="the name of a part")]
FilterName = Annotated[
    str,
    Meta(pattern=f"^{FILTER_NAME}\\Z", description="the name of a filter: letters, digits, '.', '_' and '-'"),
]


class _Document(Struct, frozen=True, forbid_unknown_fields=True):
    split_parts: Annotated[dict[_PartName, _Names], Meta(description="a mapping from part to list of shards")]
    exclude: _Names = None
    sample_ranges: Annotated[dict[_PartName, Any], Meta(description="a mapping from part to range")] | None = None
    sample_filters: Annotated[dict[_PartName, FilterName], Meta(description="a mapping from part to filter")] | None = (
        None
    )


_DOCUMENT = Annotated[_Document, Meta(description="a mapping with split_parts and exclude")]

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_./{}-]*")
_ASCII = re.compile(r"[ -~]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitConfig:
    """The content of a split file, with brace patterns expanded.

    Args:
        split_parts: Shards of each part in order, relative to the dataset, with ``/`` between folders.
        exclude: Shards (``shards/s_0.tar``) and samples (``shards/s_0.tar/key``) that are excluded from every part. In
            the file, a sample may also be a bare ``key``; :attr:`.Documents.split` has its shards.
        sample_ranges: Part → the range of each of its shards that belongs to it. A part that is missing has whole
            shards. megatron-energon refuses files with this key.
        sample_filters: Part → the filter of the dataset that keeps its samples in its shards. A part that is missing
            has all samples. megatron-energon refuses files with this key, too.
    """

    split_parts: dict[str, tuple[str, ...]]
    exclude: tuple[str, ...] = ()
    sample_ranges: Mapping[str, SubsetRange] = field(default_factory=dict)
    sample_filters: Mapping[str, str] = field(default_factory=dict)

    def samples_of(self, part: str, samples: int, *, shard: str = "", file: str = "") -> range:
        """Return the numbers of the samples, within a shard of a given size, that belong to one of its parts.

        Args:
            part: Name of the part.
            samples: Number of samples in the shard.
            shard: Name of the shard, for messages.
            file: Path of the split file, for messages.

        Raises:
            ConfigError: A range of numbers reaches beyond the shard.
        """
        applied = self.sample_ranges.get(part)
        if applied is None:
            return range(samples)
        return range(*resolve_subset((applied,), samples, at=f"{file}: sample_ranges.{part}, shard {shard}"))

    def excluded_shards(self) -> frozenset[str]:
        """Return the shards that are excluded as a whole."""
        return frozenset(shard for shard, key in self._split_exclude() if key is None)

    def excluded_samples(self) -> dict[str, frozenset[str]]:
        """Return the keys of excluded samples by shard."""
        keys: dict[str, set[str]] = {}
        for shard, key in self._split_exclude():
            if key is not None:
                keys.setdefault(shard, set()).add(key)
        return {shard: frozenset(excluded) for shard, excluded in keys.items()}

    def _split_exclude(self) -> Iterable[tuple[str, str | None]]:
        shards = frozenset(shard for part in self.split_parts.values() for shard in part)
        return (split_sample_name(name, shards) for name in self.exclude)


def split_sample_name(name: str, shards: frozenset[str] = frozenset()) -> tuple[str, str | None]:
    """Split ``shard/key`` into shard and key. The key is None if the name is a shard.

    Both may have slashes. The shard is the longest one of ``shards`` that the name begins with, or else the text up to
    the first ``.tar``, ``.jsonl`` or ``.parquet`` before a slash.

    >>> split_sample_name("a/b.tar/c/d")
    ('a/b.tar', 'c/d')
    >>> split_sample_name("a/b.tar")
    ('a/b.tar', None)
    """
    if name in shards:
        return name, None
    slash = name.rfind("/")
    while slash > 0:
        if name[:slash] in shards:
            return name[:slash], name[slash + 1 :]
        slash = name.rfind("/", 0, slash)
    ends = [name.find(f"{suffix}/") + len(suffix) for suffix in SHARD_SUFFIXES if f"{suffix}/" in name]
    return (name[: min(ends)], name[min(ends) + 1 :]) if ends else (name, None)


# --------------------------------------------------------------------------------------------------------- reading


def parse_split_config(text: str, *, file: str) -> SplitConfig:
    """Parse a split file.

    Args:
        text: YAML, or JSON if the file's name ends in ``.json``.
        file: Name of the file, for messages.

    Returns:
        The parts in the file's order. A part or ``exclude`` without a value is empty. Of several ``exclude`` the last
        one is used, with a warning.

    Raises:
        ConfigError: The text does not parse, or has faults: unknown keys, entries that are not names, patterns that
            cannot be expanded, shards listed twice in one part. All faults are reported with their places
            (``split_parts.train[2]``).
    """
    document = _parse_json(text, file) if file.lower().endswith(".json") else _parse_yaml(text, file)
    # Check the form of each value; those that do not fit are missing below.
    faults: list[Fault] = []
    given: _Document = converted(document, _DOCUMENT, faults) or _Document(split_parts={})
    # Expand the patterns of all lists.
    lists = [(f"split_parts.{short_key(part)}", patterns) for part, patterns in given.split_parts.items()]
    *shards, exclude = _expanded([*lists, ("exclude", given.exclude)], faults)
    for name, entry in exclude.items():
        if name.endswith("/"):
            message = f"{short_text(name)} ends in a slash; expected a shard, or a shard, a slash and a key"
            faults.append(Fault(place=entry, message=message))
    # Parse the ranges, and compare the names of parts.
    ranges: dict[str, SubsetRange] = {}
    for part, bounds in (given.sample_ranges or {}).items():
        try:
            ranges[part] = parse_range(bounds)
        except ValueError as error:
            faults.append(Fault(place=f"sample_ranges.{short_key(part)}", message=str(error)))
    for key in ("sample_ranges", "sample_filters"):
        for part in [part for part in getattr(given, key) or () if part not in given.split_parts]:
            message = f"split_parts has no such part; there are: {', '.join(map(short_key, given.split_parts))}"
            faults.append(Fault(place=f"{key}.{short_key(part)}", message=message))
    if faults:
        raise ConfigError(file=file, faults=faults)
    return SplitConfig(
        split_parts=dict(zip(given.split_parts, map(tuple, shards), strict=True)),
        exclude=tuple(exclude),
        sample_ranges=ranges,
        sample_filters=given.sample_filters or {},
    )


class _NoReferencesLoader(yaml.SafeLoader):
    """PyYAML's safe loader without ``*references``, with which a small document could fill the memory."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("references cannot be used together with escaped surrogates")
        return super().compose_node(parent, index)


def _parse_yaml(text: str, file: str) -> Any:
    if re.search(r"\\u[dD][89a-fA-F]", text):
        # Names that are not UTF-8 are escaped as lone surrogates, which the libyaml of parse_yaml refuses.
        try:
            return yaml.load(text, Loader=_NoReferencesLoader)  # noqa: S506 - a safe loader
        except (yaml.YAMLError, ValueError) as error:
            raise error_of_yaml(error, file=file) from error
        except RecursionError:
            pass  # parse_yaml refuses the text, too
    return parse_yaml(text, file=file, last_wins=_LAST_WINS)


def _parse_json(text: str, file: str) -> Any:
    repeated: list[Fault] = []

    # Python keeps the last value of a repeated key silently, so report repetitions here.
    def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, value in pairs:
            if key in mapping and key in _LAST_WINS:
                replaced = f"{file}: {short_text(key)} is given twice; the last one is used"
                warnings.warn(escape_controls(replaced), UserWarning, stacklevel=2)
            elif key in mapping:
                repeated.append(Fault(place="", message=f"{short_text(key)} is given twice"))
            mapping[key] = value
        return mapping

    try:
        document = json.loads(text, object_pairs_hook=no_repeats)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        fault = Fault(place=position, message=f"this is not valid JSON: {error.msg}")
        raise ConfigError(file=file, faults=[fault], at=f"{file}, {position}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"this JSON cannot be parsed: {error}", file=file) from error
    if repeated:
        raise ConfigError(file=file, faults=repeated, hint="remove one of the two")
    return document


def _expanded(lists: Iterable[tuple[str, Sequence[str] | None]], faults: list[Fault]) -> Iterator[dict[str, str]]:
    """Yield the names of each list with the places of their entries; add a fault for each that cannot be used."""
    names_left = MAX_NAMES
    for path, patterns in lists:
        places: dict[str, str] = {}
        for index, pattern in enumerate(patterns or ()):
            entry = f"{path}[{index}]"
            try:
                names = expand_pattern(pattern, limit=names_left)
            except ConfigError as error:
                message = f"{error.message}; {error.hint}" if error.hint else error.message
                faults.append(Fault(place=entry, message=message))
                continue
            names_left -= len(names)
            for name in names:
                if name in places and path != "exclude":
                    message = f"{short_text(name)} is listed twice in this part (also at {places[name]})"
                    faults.append(Fault(place=entry, message=message))
                places.setdefault(name, entry)
        yield places


# --------------------------------------------------------------------------------------------------------- writing


def format_split_config(config: SplitConfig, *, file: str = SPLIT_YAML) -> str:
    """Format a split file, with runs of names as brace patterns. megatron-energon reads it too.

    The result is YAML, or JSON if the file's name ends in ``.json``.

    >>> print(format_split_config(SplitConfig(split_parts={"train": ("s_0.tar", "s_1.tar"), "val": ()})), end="")
    split_parts:
      train:
      - s_{0..1}.tar
      val: []
    exclude: []
    """
    if file.lower().endswith(".json"):
        parts = {part: compact_names(shards) for part, shards in config.split_parts.items()}
        document: dict[str, Any] = {"split_parts": parts, "exclude": compact_names(config.exclude)}
        if config.sample_ranges:
            document["sample_ranges"] = {part: bounds_of(subset) for part, subset in config.sample_ranges.items()}
        if config.sample_filters:
            document["sample_filters"] = dict(config.sample_filters)
        return json.dumps(document, indent=2) + "\n"
    lines = ["split_parts:" if config.split_parts else "split_parts: {}"]
    lines += _format_lists(config.split_parts, indent="  ")
    lines += _format_lists({"exclude": config.exclude}, indent="")
    if config.sample_ranges:
        lines.append("sample_ranges:  # the share of each shard of a part that belongs to it")
        lines += [f"  {_scalar(part)}: {subset}" for part, subset in config.sample_ranges.items()]
    if config.sample_filters:
        lines.append("sample_filters:  # the filter in this folder that keeps the samples of a part")
        lines += [f"  {_scalar(part)}: {_scalar(name)}" for part, name in config.sample_filters.items()]
    return "\n".join(lines) + "\n"


def _format_lists(lists: Mapping[str, Iterable[str]], *, indent: str) -> Iterable[str]:
    for key, names in lists.items():
        patterns = compact_names(names)
        yield f"{indent}{_scalar(key)}:" if patterns else f"{indent}{_scalar(key)}: []"
        yield from (f"{indent}- {_scalar(pattern)}" for pattern in patterns)


def _scalar(text: str) -> str:
    """Write a text as a YAML scalar, with quotes unless it is certainly safe without."""
    if _BARE.fullmatch(text) and not any(
        pattern.match(text) for _, pattern in yaml.SafeLoader.yaml_implicit_resolvers.get(text[0], ())
    ):
        return text
    if _ASCII.fullmatch(text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escape_character, text)) + '"'


def _escape_character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
