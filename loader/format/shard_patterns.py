r"""What the patterns of ``--split-parts NAME:PATTERN`` match.

As with megatron-energon 7.4.1, braces expand first (``\{`` is a brace for the regex; a quantifier such as ``\d{6}`` has
neither ``..`` nor a comma and stays). Then each result is a regex that must match *from the start* of the shard's name
but need not reach its end (``re.match``): ``train`` takes all that begins with train. Shards keep the dataset's order,
whatever the order of the alternatives.

Other than there, backslashes are kept (there, ``\d`` becomes ``d``), ``glob:`` is understood, a part named twice gets
the shards of both its patterns (there, of the last), and a pattern without a match is an error (there, an empty part).
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Iterator

from .brace_patterns import expand_pattern

__all__ = ["ShardFinder"]

_SPECIAL_IN_GLOB = "*?["
_SPECIAL_IN_REGEX = "\\^$.|?*+()[]{}"


class ShardFinder:
    """Finds the shards that a pattern matches, in far fewer tries than (alternatives × shards).

    Args:
        shards: The names of all shards.
    """

    def __init__(self, shards: Iterable[str]) -> None:
        self._sorted = sorted(set(shards))

    def find(self, pattern: str) -> set[str]:
        """Find all shards that a pattern matches.

        Raises:
            ConfigError: Its braces cannot be expanded.
            re.error, OverflowError, RecursionError: It is no regex.
        """
        compile_pattern: Callable[[str], re.Pattern[str]]
        if pattern.startswith("glob:"):
            alternatives = expand_pattern(pattern.removeprefix("glob:"))
            compile_pattern, special = _compile_glob, _SPECIAL_IN_GLOB
        else:
            # Every backslash stays, and what it stands before is not special to the braces: \{ goes on to the regex.
            alternatives = expand_pattern(re.sub(r"\\(.)", r"\\\\\\\1", pattern, flags=re.DOTALL))
            compile_pattern, special = re.compile, _SPECIAL_IN_REGEX
        compile_pattern(alternatives[0])  # so that a slip is found even where no shard is like it
        found: set[str] = set()
        for alternative in alternatives:
            candidates = list(self._starting_with(_literal_start(alternative, special)))
            if candidates:
                matches = compile_pattern(alternative).match
                found.update(shard for shard in candidates if matches(shard))
        return found

    def _starting_with(self, start: str) -> Iterator[str]:
        for index in range(bisect.bisect_left(self._sorted, start), len(self._sorted)):
            if not self._sorted[index].startswith(start):
                return
            yield self._sorted[index]


def _literal_start(pattern: str, special: str) -> str:
    """Give what the name of every match begins with."""
    length = next((index for index, character in enumerate(pattern) if character in special), len(pattern))
    if special == _SPECIAL_IN_GLOB:
        return pattern[:length]
    if "|" in pattern:
        return ""
    # The last character may be repeated zero times: in "ab*", only "a" is sure.
    uncertain = pattern[length : length + 1] in ("*", "?", "{")
    return pattern[: max(0, length - uncertain)]


def _compile_glob(pattern: str) -> re.Pattern[str]:
    """Compile a glob for a whole name: ``*`` and ``?`` stay within a folder, ``**`` crosses them."""
    pieces: list[str] = []
    for match in re.finditer(r"(\*\*/)|(\*\*)|(\*)|(\?)|\[(!?)(\][^\]]*|[^\]]+)\]|(.)", pattern, re.DOTALL):
        folders, anything, star, question, negated, members, character = match.groups()
        if folders:
            pieces.append("(?:.*/)?")
        elif anything:
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
