"""Ratios of split parts, and split parts in the names of shards."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from ..errors import ConfigError

_RATIO_PARTS = ("train", "val", "test")
_BETWEEN_NUMBERS = re.compile(r"\s*[,/:;]\s*|\s+(?=[\d.])")
_RATIO_HELP = "give numbers for train, val and test (8,1,1), or for parts of your own (train=9,holdout=1)"


def format_ratio(ratio: Mapping[str, float]) -> str:
    """Return the text of a ratio, as users type it.

    >>> format_ratio({"train": 8.0, "val": 1.0}), format_ratio({"holdout": 1})
    ('8,1', 'holdout=1')
    """
    if tuple(ratio) == _RATIO_PARTS[: len(ratio)]:
        return ",".join(f"{share:g}" for share in ratio.values())
    return ",".join(f"{name}={share:g}" for name, share in ratio.items())


def parse_ratio(text: str) -> dict[str, float]:
    """Parse a ratio: up to three numbers for train, val and test, or named ones after commas.

    Numbers may be separated by commas, slashes, colons or spaces, and be percentages.

    Raises:
        ConfigError: The text has another form, or a number is below 0 or not finite, or none is above 0.

    >>> parse_ratio("8,1,1")
    {'train': 8.0, 'val': 1.0, 'test': 1.0}
    >>> parse_ratio("80/10/10") == parse_ratio("80 : 10 : 10") == parse_ratio("80%, 10%, 10%")
    True
    >>> parse_ratio("train=9, holdout=1")
    {'train': 9.0, 'holdout': 1.0}
    """
    # Pair each number with the name of a part.
    items = [item.strip() for item in (text.split(",") if "=" in text else _BETWEEN_NUMBERS.split(text.strip()))]
    if "=" in text:
        pairs = [(name.strip(), weight) for name, _, weight in (item.partition("=") for item in items)]
    else:
        if len(items) > len(_RATIO_PARTS):
            raise ConfigError(f"the ratio {text!r} has {len(items)} numbers, expected at most 3", hint=_RATIO_HELP)
        pairs = list(zip(_RATIO_PARTS, items, strict=False))
    # Check the numbers: NaN and infinity are no shares.
    ratio: dict[str, float] = {}
    for name, weight in pairs:
        try:
            share = float(weight.removesuffix("%"))
        except ValueError:
            share = math.nan
        if not name or not 0 <= share < math.inf:
            raise ConfigError(f"the ratio {text!r} has {weight!r}, expected a number from 0 up", hint=_RATIO_HELP)
        if name in ratio:
            raise ConfigError(f"the ratio {text!r} names {name!r} twice", hint=_RATIO_HELP)
        ratio[name] = share
    if not any(ratio.values()):
        raise ConfigError(f"the ratio {text!r} leaves every part empty", hint=_RATIO_HELP)
    return ratio


_NAMES_OF_PARTS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}


def detect_split(shards: Sequence[str]) -> dict[str, tuple[str, ...]] | None:
    """Derive a split from shard names such as ``train_0.tar``, ``cc3m-val-000.tar`` or ``valid/0.tar``.

    Returns:
        Part → shards, in the order train, val, test; None unless *every* shard names its part and there are at least
        two parts.

    >>> detect_split(["train/0.tar", "validation/0.tar"])
    {'train': ('train/0.tar',), 'val': ('validation/0.tar',)}
    >>> detect_split(["train/0.tar", "extra/0.tar"])
    """
    parts: dict[str, list[str]] = {name: [] for name in _RATIO_PARTS}
    for shard in shards:
        part = _part_of(shard)
        if part is None:
            return None
        parts[part].append(shard)
    filled = {name: tuple(names) for name, names in parts.items() if names}
    return filled if len(filled) > 1 else None


def _part_of(shard: str) -> str | None:
    """Return the part that the first folder (or the file name) naming exactly one part names."""
    for component in shard.lower().split("/"):
        words = re.findall(r"[^\W\d_]+", component)
        named = {_NAMES_OF_PARTS[word] for word in words if word in _NAMES_OF_PARTS}
        if len(named) == 1:
            return named.pop()
    return None
