"""Parse and write ``split.yaml`` and ``split.json``, the shards of each split part and what is excluded."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from ...errors import ConfigError, Fault, escape_controls
from ..data_kind import SHARD_SUFFIXES
from ..nv_meta import SPLIT_YAML, is_filter_name
from .brace_patterns import MAX_NAMES, compact_names, expand_pattern
from .messages import did_you_mean, short_text
from .subset import SubsetRange, bounds_of, parse_range, resolve_subset
from .yaml_document import error_of_yaml, parse_yaml

_KEYS = ("split_parts", "exclude", "sample_ranges", "sample_filters")

# Keys that may be repeated: files with an empty ``exclude`` and a later one are in use with megatron-energon.
_LAST_WINS = ("exclude",)

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
    reader = _Reader()
    config = reader.read(document)
    if reader.faults:
        raise ConfigError(file=file, faults=reader.faults)
    return config


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


class _Reader:
    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._names_left = MAX_NAMES

    def read(self, document: Any) -> SplitConfig:
        # Continue after a fault with an empty value, so that one run reports all faults.
        if not isinstance(document, dict):
            self._fault("", f"expected a mapping with split_parts and exclude, found {_kind(document)}")
            document = {"split_parts": {}}
        for key in document:
            if key not in _KEYS:
                advice = did_you_mean(key, _KEYS) if isinstance(key, str) else f"; known are {', '.join(_KEYS)}"
                self._fault(_place(key), f"unknown key{advice}")
        if "split_parts" not in document:
            self._fault("split_parts", "this is missing; expected a mapping from part to list of shards")
        parts = document.get("split_parts", {})
        if not isinstance(parts, dict):
            self._fault("split_parts", f"expected a mapping from part to list of shards, found {_kind(parts)}")
            parts = {}
        return SplitConfig(
            split_parts={
                part if isinstance(part, str) else _kind(part): self._shards(part, shards)
                for part, shards in parts.items()
            },
            exclude=self._excluded(document.get("exclude")),
            sample_ranges=self._ranges(document.get("sample_ranges"), parts),
            sample_filters=self._filters(document.get("sample_filters"), parts),
        )

    def _filters(self, filters: Any, parts: Mapping[Any, Any]) -> dict[str, str]:
        filter_by_part: dict[str, str] = {}
        for part, name in self._of_parts("sample_filters", filters, parts, "filter"):
            if isinstance(name, str) and is_filter_name(name):
                filter_by_part[part] = name
            else:
                self._fault(f"sample_filters.{_place(part)}", f"expected the name of a filter, found {_kind(name)}")
        return filter_by_part

    def _ranges(self, ranges: Any, parts: Mapping[Any, Any]) -> dict[str, SubsetRange]:
        range_by_part: dict[str, SubsetRange] = {}
        for part, value in self._of_parts("sample_ranges", ranges, parts, "range"):
            try:
                range_by_part[part] = parse_range(value)
            except ValueError as error:
                self._fault(f"sample_ranges.{_place(part)}", str(error))
        return range_by_part

    def _of_parts(self, key: str, values: Any, parts: Mapping[Any, Any], what: str) -> Iterable[tuple[str, Any]]:
        """Yield the entries of a mapping from existing parts."""
        if values is None:
            return
        if not isinstance(values, dict):
            self._fault(key, f"expected a mapping from part to {what}, found {_kind(values)}")
            return
        for part, value in values.items():
            if part in parts:
                yield part, value
            else:
                known = ", ".join(map(_place, parts))
                self._fault(f"{key}.{_place(part)}", f"split_parts has no such part; there are: {known}")

    def _shards(self, part: Any, patterns: Any) -> tuple[str, ...]:
        path = f"split_parts.{_place(part)}"
        if not isinstance(part, str) or not part:
            self._fault(path, f"expected the name of a part, found {_kind(part)}; put it in quotes")
        shards: dict[str, str] = {}
        for entry_place, name in self._names(path, patterns):
            if name in shards:
                self._fault(entry_place, f"{short_text(name)} is listed twice in this part (also at {shards[name]})")
            shards.setdefault(name, entry_place)
        return tuple(shards)

    def _excluded(self, patterns: Any) -> tuple[str, ...]:
        names: dict[str, None] = {}
        for path, name in self._names("exclude", patterns):
            if name.endswith("/"):
                self._fault(
                    path, f"{short_text(name)} ends in a slash; expected a shard, or a shard, a slash and a key"
                )
            names[name] = None
        return tuple(names)

    def _names(self, path: str, patterns: Any) -> Iterable[tuple[str, str]]:
        """Yield every name with the place of its entry."""
        if patterns is None:
            return
        if not isinstance(patterns, list):
            self._fault(path, f"expected a list of names, found {_kind(patterns)}")
            return
        for index, pattern in enumerate(patterns):
            entry_place = f"{path}[{index}]"
            if not isinstance(pattern, str) or not pattern:
                quotes = "; put it in quotes" if isinstance(pattern, int | float) else ""
                self._fault(entry_place, f"expected a name, found {_kind(pattern)}{quotes}")
                continue
            try:
                names = expand_pattern(pattern, limit=self._names_left)
            except ConfigError as error:
                self._fault(entry_place, f"{error.message}; {error.hint}" if error.hint else error.message)
                continue
            self._names_left -= len(names)
            for name in names:
                yield entry_place, name

    def _fault(self, path: str, message: str) -> None:
        self.faults.append(Fault(place=path, message=message))


def _place(key: Any) -> str:
    return key if isinstance(key, str) and len(key) <= 120 else _kind(key)


def _kind(value: Any) -> str:
    """Describe a value without printing large ones."""
    match value:
        case None:
            return "nothing"
        case "":
            return "an empty text"
        case str():
            return f"the text {short_text(value)}"
        case bool():
            return str(value).lower()
        case int() | float():
            huge = (
                isinstance(value, int) and value.bit_length() > 99
            )  # Python refuses to print those over 4,300 digits.
            return "a huge number" if huge else f"the number {value}"
        case dict():
            return "a mapping"
        case list():
            return "a list"
    return f"a {type(value).__name__}"


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
