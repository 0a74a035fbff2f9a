r"""Expand and write lists of names as brace patterns, and match shards against patterns.

``s_{000..012}.tar`` is a brace pattern of thirteen shards, as bash expands it. A backslash escapes the character after
it: the name ``a{b}.tar`` is written ``a\{b\}.tar``. Python's ``braceexpand``, which megatron-energon reads split files
with, follows the same rules.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, takewhile

from braceexpand import braceexpand

from ...errors import ConfigError, plural
from .messages import short_text

MAX_NAMES = 1_000_000  # limit on the names of one pattern: more are taken for a mistake or an attack, and not expanded

# Limit on the length of a pattern. A name without braces and backslashes has no limit.
MAX_PATTERN_LETTERS = 1 << 16

_MAX_CHARACTERS = 1 << 28  # of all names of one pattern together
_MAX_COUNT = 10**18  # Counting stops here: a product of thousands of ranges is slow to compute.
_MAX_DEPTH = 32  # of nested braces
_MAX_DIGITS = 18  # Such numbers fit 64 bits. Longer ones are never compacted.
_MAX_RANGES = 8  # of one compact pattern

_SPECIAL = re.compile(r"[\\{}]")
_NUMBER = re.compile(r"([0-9]+)")

# An escaped character, a range, or one special character. The ranges are braceexpand's, which accepts a line break
# before the closing brace.
_TOKEN = re.compile(
    r"""\\.?
    | \{ (?: (?P<first>-?\d+) \.\. (?P<last>-?\d+) | [A-Za-z]\.\.[A-Za-z] ) (?: \.\. -?(?P<step>\d+) )? \n? \}
    | [{},]""",
    re.DOTALL | re.VERBOSE,
)


# ------------------------------------------------------------------------------------------------ pattern → names


def expand_pattern(pattern: str, *, limit: int = MAX_NAMES) -> list[str]:
    r"""Expand a brace pattern into its names, in order.

    Args:
        pattern: Ranges (``{00..12}``, ``{0..9..3}``, ``{a..c}``) and lists (``{train,val}``), also nested.
        limit: Maximum number of names. They are counted before the first is built.

    >>> expand_pattern("s_{08..10}.tar")
    ['s_08.tar', 's_09.tar', 's_10.tar']
    >>> expand_pattern(r"a\{b\}.tar")
    ['a{b}.tar']
    """
    if not _SPECIAL.search(pattern):
        return [pattern]
    if len(pattern) > MAX_PATTERN_LETTERS:
        raise ConfigError(
            f"{short_text(pattern)} has {len(pattern):,} letters, expected at most {MAX_PATTERN_LETTERS:,}"
        )
    count = count_names(pattern)
    if count > limit:
        amount = f"{count:,}" if count <= _MAX_COUNT else "more than 10¹⁸"
        raise ConfigError(f"{short_text(pattern)} expands to {amount} names, expected at most {limit:,}")
    if count * len(pattern) > _MAX_CHARACTERS:
        raise ConfigError(
            f"{short_text(pattern)} expands to {plural(count, 'name')} of up to {len(pattern):,} characters"
        )
    return list(braceexpand(pattern))


def count_names(pattern: str) -> int:
    """Count the names of a pattern without building them; stop at any number above 10¹⁸.

    ``islice`` cannot limit the memory of ``braceexpand``: it passes the content of each outermost pair of braces to
    ``itertools.product``, which lists all of it before the first name. ``{0..999999999999}`` fills the memory that way,
    and so does ``{{0..999}{0..999}{0..999}}``. Deep nesting exceeds its recursion limit.

    >>> count_names("{a,b{0..9}}_{000000..999999}.tar")
    11000000
    """
    names, names_before = 1, 0  # of the list item being read, and of the items before it
    outer: list[tuple[int, int]] = []  # the same two numbers for each open brace
    depth = 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        # Open a list: remember the numbers around it.
        if text == "{":
            outer.append((names, names_before))
            names, names_before = 1, 0
            depth = max(depth, len(outer))
        # Close a list: its names multiply the names before it.
        elif text == "}":
            if not outer:
                raise _unbalanced(pattern)
            inside = names + names_before
            names, names_before = outer.pop()
            names *= inside
        elif text == ",":
            if outer:
                names, names_before = 1, names + names_before
        elif text[0] == "{":
            names *= _range_size(token, pattern)
        if names > _MAX_COUNT:
            return names
    if outer:
        raise _unbalanced(pattern)
    if depth > _MAX_DEPTH:
        raise ConfigError(f"{short_text(pattern)} nests braces more than {_MAX_DEPTH} deep")
    return names


def _range_size(token: re.Match[str], pattern: str) -> int:
    if max(map(len, token.groups(""))) > _MAX_DIGITS + 1:
        raise ConfigError(f"{short_text(pattern)} has a number of more than {_MAX_DIGITS} digits in braces")
    if token["first"] is None:
        return len(list(braceexpand(token[0])))  # of letters: 52 at most
    step = int(token["step"] or 1) or 1
    return abs(int(token["last"]) - int(token["first"])) // step + 1


def _unbalanced(pattern: str) -> ConfigError:
    return ConfigError(
        f"{short_text(pattern)} has an unbalanced brace",
        hint="close it, or write \\{ and \\} for braces that belong to the name",
    )


# ------------------------------------------------------------------------------------------------ names → patterns


def escape_name(name: str) -> str:
    r"""Escape braces and backslashes, so that the pattern expands to the name alone.

    >>> escape_name("{a}.tar")
    '\\{a\\}.tar'
    """
    return _SPECIAL.sub(r"\\\g<0>", name)


_Term = list[str | tuple[str, str]]  # text, number, text, …: numbers at odd positions, where a pair is a range


def compact_names(names: Iterable[str]) -> list[str]:
    """Write names as few patterns: neighbours that differ in one number, by one, become a range.

    The patterns, expanded one after the other, are exactly the same names in the same order. Lists in braces
    (``{a,b}``) are never written: next to ranges they save little, and make a file harder to edit.

    >>> compact_names(["train/s_08.tar", "train/s_09.tar", "train/s_10.tar", "val.tar"])
    ['train/s_{08..10}.tar', 'val.tar']
    >>> compact_names(f"part{folder}/{shard}.tar" for folder in "123" for shard in "0123")
    ['part{1..3}/{0..3}.tar']
    """
    terms: list[_Term] = [list(_NUMBER.split(name)) for name in names]
    # From the last number to the first: expansion varies the rightmost range first.
    for back in range(2, 2 * _MAX_RANGES + 2, 2):
        terms = _merge_runs(terms, back)
        if all(len(term) < back + 2 for term in terms):
            break
    return ["".join(_format_token(token) for token in term) for term in terms]


def _merge_runs(terms: list[_Term], back: int) -> list[_Term]:
    """Merge neighbours that count up in the number ``back`` positions before the end and are equal elsewhere."""
    merged: list[_Term] = []
    for term in terms:
        before = merged[-1] if merged else []
        if len(term) == len(before) > back:
            token, run = term[-back], before[-back]
            first, last = run if isinstance(run, tuple) else (run, run)
            if (
                isinstance(token, str)
                and _extends_range(first, last, token)
                and term[-back + 1 :] == before[-back + 1 :]
                and term[:-back] == before[:-back]
            ):
                before[-back] = (first, token)
                continue
        merged.append(term)
    return merged


def _extends_range(first: str, last: str, bound: str) -> bool:
    """Check that ``{first..bound}`` expands to ``{first..last}`` and then to this bound, digit for digit."""
    if len(bound) > _MAX_DIGITS or len(last) > _MAX_DIGITS or int(bound) != int(last) + 1:
        return False
    padded = first[0] == "0" and first != "0"
    # In a range with leading zeros all numbers have the same width. A range without has no leading zeros anywhere.
    return len(bound) == len(first) if padded else bound[0] != "0"


def _format_token(token: str | tuple[str, str]) -> str:
    return escape_name(token) if isinstance(token, str) else f"{{{token[0]}..{token[1]}}}"


_SPECIAL_IN_GLOB = "*?["
_SPECIAL_IN_REGEX = "\\^$.|?*+()[]{}"


def match_names(pattern: str, names: Sequence[str]) -> set[str]:
    """Return the names that a pattern matches, without trying each alternative on each name.

    The literal start of an alternative selects its candidates in the sorted names.

    Args:
        pattern: A regex, or a glob after the prefix ``glob:``. Braces are expanded in both.
        names: Names of shards, sorted.

    Raises:
        re.error, OverflowError, RecursionError: The pattern is not a valid regex.
    """
    compile_pattern: Callable[[str], re.Pattern[str]]
    if pattern.startswith("glob:"):
        alternatives = expand_pattern(pattern.removeprefix("glob:"))
        compile_pattern, special = _compile_glob, _SPECIAL_IN_GLOB
    else:
        # Backslashes are for the regex: expansion keeps them, and ignores the braces that they escape.
        alternatives = expand_pattern(re.sub(r"\\(.)", r"\\\\\\\1", pattern, flags=re.DOTALL))
        compile_pattern, special = re.compile, _SPECIAL_IN_REGEX
    compile_pattern(alternatives[0])  # An invalid regex is an error even if it has no candidates.
    matching: set[str] = set()
    for alternative in alternatives:
        start = _literal_start(alternative, special)
        first = bisect.bisect_left(names, start)
        candidates = list(takewhile(lambda name, start=start: name.startswith(start), islice(names, first, None)))  # type: ignore[misc]
        if candidates:
            matches = compile_pattern(alternative).match
            matching.update(name for name in candidates if matches(name))
    return matching


def _literal_start(pattern: str, special: str) -> str:
    """Return the text that every match starts with."""
    length = next((index for index, character in enumerate(pattern) if character in special), len(pattern))
    if special == _SPECIAL_IN_GLOB:
        return pattern[:length]
    if "|" in pattern:
        return ""
    # The last character may occur zero times: every match of "ab*" starts with "a".
    is_optional = pattern[length : length + 1] in ("*", "?", "{")
    return pattern[: max(0, length - is_optional)]


def _compile_glob(pattern: str) -> re.Pattern[str]:
    """Compile a glob for a whole name: ``*`` and ``?`` stay within a folder, ``**`` crosses them."""
    pieces: list[str] = []
    for match in re.finditer(r"(\*\*/)|(\*\*)|(\*)|(\?)|\[(!?)(\][^\]]*|[^\]]+)\]|(.)", pattern, re.DOTALL):
        folders, any_path, star, question, negated, members, character = match.groups()
        if folders:
            pieces.append("(?:.*/)?")
        elif any_path:
            pieces.append(".*")
        elif star:
            pieces.append("[^/]*")
        elif question:
            pieces.append("[^/]")
        elif members:
            escaped = re.sub(r"([\\\[&~|^])", r"\\\1", members)
            pieces.append(f"[{'^/' if negated else ''}{escaped}]")
        else:
            pieces.append(re.escape(character))
    return re.compile("".join(pieces) + r"\Z", re.DOTALL)
