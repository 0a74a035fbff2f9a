r"""Lists of names as bash-like brace patterns: ``s_{000..012}.tar`` for thirteen shards, and back.

A backslash takes away the meaning of the character behind it, so a name that holds a brace or a backslash is written
``a\{b\}.tar``. Python's ``braceexpand``, which megatron-energon reads these files with, understands the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from braceexpand import braceexpand

from ..errors import ConfigError

__all__ = ["MAX_NAMES", "MAX_PATTERN_LETTERS", "compact_names", "count_names", "escape_name", "expand_pattern"]

MAX_NAMES = 1_000_000
"""More names than this are taken for a mistake (or an attack) and not expanded."""

MAX_PATTERN_LETTERS = 1 << 16
"""Longer patterns are not expanded; a plain name may be as long as it likes."""

_MAX_CHARACTERS = 1 << 28  # of all names of one pattern together
_COUNTED = 10**18  # where counting stops: numbers that grow with each pair of braces take ever longer
_MAX_DEPTH = 32  # of braces in braces
_MAX_DIGITS = 18  # such numbers fit 64 bits; longer ones are never compacted
_MAX_RANGES = 8  # of one compact pattern

# As braceexpand has them, with its tolerance for a line break at the end.
_INTEGER_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.-?(\d+))?\n?")
_LETTER_RANGE = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.-?(\d+))?\n?")
_SPECIAL = re.compile(r"[\\{}]")
_NUMBER = re.compile(r"([0-9]+)")


# ------------------------------------------------------------------------------------------------ pattern → names


def expand_pattern(pattern: str, *, limit: int = MAX_NAMES) -> list[str]:
    r"""Expand a brace pattern into the names it stands for, in order.

    Args:
        pattern: Ranges (``{00..12}``, ``{0..9..3}``, ``{a..c}``) and lists (``{train,val}``), also nested.
        limit: How many names are too many; they are counted before any is made.

    Raises:
        ConfigError: A brace without its partner, more than ``limit`` names, or braces nested over 32 deep.

    >>> expand_pattern("s_{08..10}.tar")
    ['s_08.tar', 's_09.tar', 's_10.tar']
    >>> expand_pattern(r"a\{b\}.tar")
    ['a{b}.tar']
    """
    if not _SPECIAL.search(pattern):
        return [pattern]
    if len(pattern) > MAX_PATTERN_LETTERS:
        raise ConfigError(f"{_shown(pattern)} has {len(pattern):,} letters, expected at most {MAX_PATTERN_LETTERS:,}")
    count = count_names(pattern)
    if count > limit:
        raise ConfigError(f"{_shown(pattern)} stands for {_amount(count)} names, expected at most {limit:,}")
    if count * len(pattern) > _MAX_CHARACTERS:
        raise ConfigError(f"{_shown(pattern)} stands for {count:,} names of up to {len(pattern):,} characters each")
    try:
        return list(braceexpand(pattern))
    except ValueError as error:  # pragma: no cover - counting has found unbalanced braces already
        raise _unbalanced(pattern) from error


def count_names(pattern: str) -> int:
    """Count the names that a pattern stands for, without making them; above 10¹⁸ any larger number will do.

    Raises:
        ConfigError: As for :func:`expand_pattern`, but for the number of names.

    >>> count_names("{a,b{0..9}}_{000000..999999}.tar")
    11000000
    """
    return _count(pattern, pattern, 0)


def _count(text: str, pattern: str, depth: int) -> int:
    if depth > _MAX_DEPTH:
        raise ConfigError(f"{_shown(pattern)} nests braces more than {_MAX_DEPTH} deep")
    names = 1
    for inside in _groups(text, pattern):
        if match := _INTEGER_RANGE.fullmatch(inside):
            _check_digits(match, pattern)
            first, last, step = int(match[1]), int(match[2]), int(match[3] or 1) or 1
            names *= abs(last - first) // step + 1
        elif match := _LETTER_RANGE.fullmatch(inside):
            _check_digits(match, pattern)
            names *= len(list(braceexpand("{" + inside + "}")))  # 52 at most
        else:
            items = _split_at_commas(inside)
            names *= sum(_count(item, pattern, depth + 1) for item in items)
        if names > _COUNTED:
            return names
    return names


def _check_digits(match: re.Match[str], pattern: str) -> None:
    if max(map(len, match.groups(""))) > _MAX_DIGITS + 1:
        raise ConfigError(f"{_shown(pattern)} has a number of more than {_MAX_DIGITS} digits in braces")


def _groups(text: str, pattern: str) -> Iterator[str]:
    """Yield what stands inside each outermost pair of braces."""
    depth = start = 0
    for position, character in _unescaped(text):
        if character == "{":
            if depth == 0:
                start = position + 1
            depth += 1
        elif character == "}":
            depth -= 1
            if depth < 0:
                raise _unbalanced(pattern)
            if depth == 0:
                yield text[start:position]
    if depth:
        raise _unbalanced(pattern)


def _split_at_commas(text: str) -> list[str]:
    """Split at the commas outside of inner braces; a single item means that there is none."""
    items: list[str] = []
    depth = start = 0
    for position, character in _unescaped(text):
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            items.append(text[start:position])
            start = position + 1
    items.append(text[start:])
    return items


def _unescaped(text: str) -> Iterator[tuple[int, str]]:
    position = 0
    while position < len(text):
        if text[position] == "\\":
            position += 2
            continue
        yield position, text[position]
        position += 1


def _unbalanced(pattern: str) -> ConfigError:
    return ConfigError(
        f"{_shown(pattern)} has a brace without its partner",
        do="close it, or write \\{ and \\} for braces that belong to the name",
    )


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 120 else pattern[:117] + "…")


def _amount(count: int) -> str:
    return f"{count:,}" if count < 10**18 else "more than 10¹⁸"


# ------------------------------------------------------------------------------------------------ names → patterns


def escape_name(name: str) -> str:
    r"""Write one name so that expansion gives it back as it is.

    >>> escape_name("{a}.tar")
    '\\{a\\}.tar'
    """
    return _SPECIAL.sub(r"\\\g<0>", name)


_Term = list[str | tuple[str, str]]  # text, number, text, …: numbers at the odd places, a pair there is a range


def compact_names(names: Iterable[str]) -> list[str]:
    """Write names as few patterns: runs of neighbours that differ in one number, by one, become a range.

    Expanding the patterns one after the other gives the very same names in the same order. Lists in braces
    (``{a,b}``) are never written: beside ranges they save little, and make a file harder to edit.

    >>> compact_names(["train/s_08.tar", "train/s_09.tar", "train/s_10.tar", "val.tar"])
    ['train/s_{08..10}.tar', 'val.tar']
    >>> compact_names(f"part{folder}/{shard}.tar" for folder in "123" for shard in "0123")
    ['part{1..3}/{0..3}.tar']
    """
    terms: list[_Term] = [list(_NUMBER.split(name)) for name in names]
    # From the last number to the first: a range stands right of those that later passes make, and so runs faster.
    for back in range(2, 2 * _MAX_RANGES + 2, 2):
        terms = _merge_runs(terms, back)
        if all(len(term) < back + 2 for term in terms):
            break
    return ["".join(_format_token(token) for token in term) for term in terms]


def _merge_runs(terms: list[_Term], back: int) -> list[_Term]:
    """Merge neighbours that count on in the number ``back`` places before the end and are equal elsewhere."""
    merged: list[_Term] = []
    for term in terms:
        before = merged[-1] if merged else []
        if len(term) == len(before) > back:
            token, run = term[-back], before[-back]
            first, last = run if isinstance(run, tuple) else (run, run)
            if (
                isinstance(token, str)
                and _counts_on(first, last, token)
                and term[-back + 1 :] == before[-back + 1 :]
                and term[:-back] == before[:-back]
            ):
                before[-back] = (first, token)
                continue
        merged.append(term)
    return merged


def _counts_on(first: str, last: str, number: str) -> bool:
    """Tell whether ``{first..number}`` is the range ``{first..last}`` and this one number more, digit for digit."""
    if len(number) > _MAX_DIGITS or len(last) > _MAX_DIGITS or int(number) != int(last) + 1:
        return False
    padded = first[0] == "0" and first != "0"
    # A range with leading zeros keeps its width; one without has none anywhere.
    return len(number) == len(first) if padded else number[0] != "0"


def _format_token(token: str | tuple[str, str]) -> str:
    return escape_name(token) if isinstance(token, str) else f"{{{token[0]}..{token[1]}}}"
