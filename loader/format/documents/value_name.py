r"""Parse and print the names of values: of parts, of values inside them, and of what is measured of these.

::

    value = part { "[" step "]" } [ "." trait ]      jpg.width   json[objects][0][label]   json[caption].chars   txt
    part  = name { "." name } | 'part("' text '")'   name: letters, digits and "_", at first no digit
    step  = integer | text | quoted text             'quoted' or "quoted", with \ before a quote or backslash
    trait = one of TRAITS

These are the names that are printed. :meth:`PartNames.meant` takes further spellings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from keyword import iskeyword
from typing import Any

from ...errors import plural
from ...parts.kinds import kind_of_name, part_extension
from .messages import nearest_names

_OF_PICTURES = ("width", "height", "aspect", "mode", "format", "frames", "orientation", "bits", "alpha")
_OF_VIDEO = ("duration", "width", "height", "fps", "num_frames", "basis")
_OF_SOUND = ("duration", "audio_channels", "audio_sample_rate", "audio_num_samples", "audio_basis")
_OF_CONTENT = ("chars", "words", "tokens", "length", "null")
# What is measured of parts and of values inside them.
TRAITS = frozenset((*_OF_PICTURES, *_OF_VIDEO, *_OF_SOUND, *_OF_CONTENT, "bytes"))

# Names of values that the index has of every sample: the size of all parts, and the name of the shard.
INDEX_COLUMNS = ("bytes", "shard")

_RESERVED = frozenset((*INDEX_COLUMNS, "key", "part"))
_INTEGER = re.compile(r"-?[0-9]+")
_PLAIN_PART = re.compile(r"[^\[\],]+")
_PART = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
_QUOTED = r""""(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'"""
_QUOTED_PART = re.compile(rf"part\(\s*(?:{_QUOTED})\s*\)", re.DOTALL)
_STEP = re.compile(rf"\[\s*(?:{_QUOTED}|(?P<plain>[^\[\]]*?))\s*\]", re.DOTALL)
_SUFFIX = re.compile(r"(?:\.\w+)*")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_NEEDS_QUOTES = re.compile(r"""[\[\]"'\\]|^\s|\s$|^$|^-?[0-9]+$""")
_NO_IDENTIFIER = re.compile(r"[^A-Za-z0-9_]")
_MAX_WORDS = 6  # of a spelling without brackets; n words are divided in 2 ** (n - 1) ways


class MissingValueError(LookupError):
    """A path inside a part does not exist; the message has the step that failed."""

    def __init__(self, message: str, part: str) -> None:
        super().__init__(message)
        self.part = part


@dataclass(frozen=True, slots=True)
class ValueName:
    """A part, the path inside its decoded value, and what is measured there; without a trait, the value itself.

    Without a part, it is measured of the sample.

    >>> str(ValueName("json", ("objects", 0, "a b"), "chars")), str(ValueName("left-eye.jpg", (), "width"))
    ('json[objects][0][a b].chars', 'part("left-eye.jpg").width')
    """

    part: str
    path: tuple[str | int, ...] = ()
    trait: str = ""

    def __str__(self) -> str:
        if not self.part:
            return self.trait
        name = _format_part(self.part, is_alone=not self.path and not self.trait)
        return _joined(name, self.path) + (f".{self.trait}" if self.trait else "")

    @property
    def expression(self) -> str:
        """The form of field maps, in which other tools read part names without ``part(…)`` around them."""
        return _joined(self.part if is_part_name(self.part) else _format_part(self.part), self.path)

    @property
    def dotted(self) -> str:
        """The form without brackets, which two values may share: ``json.a.b``."""
        return ".".join(map(str, (self.part, *self.path, *([self.trait] if self.trait else []))))

    @property
    def identifier(self) -> str:
        """The form of column names, which several values may share: ``json_a_b``."""
        name = _NO_IDENTIFIER.sub("_", self.dotted)[:_MAX_IDENTIFIER]
        return f"_{name}" if name[:1].isdigit() else name

    def value(self, decoded: Any) -> Any:
        """Return the value at the path inside the part's decoded value.

        Raises:
            LookupError: The path does not exist.
        """
        for depth, step in enumerate(self.path):
            if isinstance(decoded, Mapping):
                key = step if step in decoded else str(step)
                if key not in decoded:
                    raise self._missing(depth, f"has no {step!r}, only {first_names(decoded)}{_nearest(step, decoded)}")
                decoded = decoded[key]
            elif isinstance(decoded, list | tuple):
                if not isinstance(step, int):
                    raise self._missing(depth, f"is a list, which has no key {step!r}")
                if not -len(decoded) <= step < len(decoded):
                    raise self._missing(depth, f"has {plural(len(decoded), 'item')}, no item {step}")
                decoded = decoded[step]
            else:
                raise self._missing(depth, f"is {type(decoded).__name__}, expected a mapping or a list")
        return decoded

    def _missing(self, depth: int, message: str) -> MissingValueError:
        return MissingValueError(f"{ValueName(self.part, self.path[:depth])} {message}", self.part)


_MAX_IDENTIFIER = 90  # characters; a column's name has at most 100


def parse_value_name(text: str) -> ValueName:
    """Parse a name.

    Raises:
        ValueError: The text is not a name; the message has the character.

    >>> parse_value_name("seg.png.width"), parse_value_name("json[a].chars").trait
    (ValueName(part='seg.png', path=(), trait='width'), 'chars')
    """
    name, end = read_value_name(text, 0)
    if text[end:].strip():
        raise ValueError(f"expected '[' or the end at character {end + 1} of {text!r}")
    return name


def read_value_name(text: str, position: int, *, has_traits: bool = True) -> tuple[ValueName, int]:
    """Parse a name inside a text; return it and the position after it.

    Args:
        has_traits: Measured values have names, too; otherwise ``seg.width`` is a part.

    Raises:
        ValueError: There is no name.
    """
    start, position = position, len(text) - len(text[position:].lstrip())
    # Read the part's name, which is in quotes if it has special letters.
    quoted = _QUOTED_PART.match(text, position)
    plain = _PLAIN_PART.match(text, position) if quoted is None else None
    part = _unescape(quoted) if quoted is not None else plain and plain[0].strip()
    if not part:
        raise ValueError(f"expected a part name (jpg, json[caption]) at character {start + 1} of {text!r}")
    position = (quoted or plain).end()  # type: ignore[union-attr]
    # Read the keys in brackets.
    path: list[str | int] = []
    while step := _STEP.match(text, position):
        path.append(_parse_step(step, text))
        position = step.end()
    # Without brackets, dots belong to the part's name, and only a known trait is split off.
    if quoted is None and not path:
        before, _, trait = part.rpartition(".")
        is_trait = has_traits and before and trait in TRAITS
        return (ValueName(before, (), trait) if is_trait else ValueName(part)), position
    # After brackets or quotes, words after dots are keys, and the last one may be a trait.
    suffix = _SUFFIX.match(text, position)
    words: list[str] = suffix[0].split(".")[1:] if suffix else []
    trait = words.pop() if words and words[-1] in TRAITS else ""
    if trait and not has_traits:
        raise ValueError(f"{trait!r} is measured, and no value inside a part, at character {position + 1} of {text!r}")
    return ValueName(part, (*path, *map(_as_step, words)), trait), position + len(suffix[0] if suffix else "")


def read_value_names(text: str, *, has_traits: bool = True) -> Iterator[tuple[ValueName, str]]:
    """Yield the names of a list with commas, each with its text; see :func:`read_value_name`.

    Raises:
        ValueError: Something in the list is not a name.

    >>> [text for _, text in read_value_names('width, json["a,b"].chars')]
    ['width', 'json["a,b"].chars']
    """
    position = 0
    while True:
        name, end = read_value_name(text, position, has_traits=has_traits)
        yield name, text[position:end].strip()
        rest = text[end:].lstrip()
        position = len(text) - len(rest) + 1
        if not rest:
            return
        if rest[0] != ",":
            raise ValueError(f"expected ',', '[' or the end at character {position} of {text!r}")


def value_name_end(text: str, position: int) -> int:
    """Return where a name ends that begins at a letter inside of an expression; part names are as they are printed."""
    begin = _QUOTED_PART.match(text, position) or _PART.match(text, position)
    if begin is None or iskeyword(begin[0]):
        return begin.end() if begin else position + 1
    position = begin.end()
    while step := _STEP.match(text, position):
        position = step.end()
    suffix = _SUFFIX.match(text, position)
    return suffix.end() if suffix else position


def is_part_name(text: str) -> bool:
    """Return True if a field map can name a part without ``part(…)``.

    >>> is_part_name("seg.png"), is_part_name("a[0].png"), is_part_name("a.png ")
    (True, False, False)
    """
    is_plain = _PLAIN_PART.fullmatch(text) is not None and text == text.strip()
    return is_plain and _QUOTED_PART.match(text) is None


class PartNames:
    """The names of a dataset's parts, and what names of values mean there.

    >>> [str(name) for name in PartNames(["jpg", "png", "json"]).meant("width")]
    ['jpg.width', 'png.width', 'json[width]']
    >>> [str(name) for name in PartNames(["json"]).meant("json.a.chars")]
    ['json[a.chars]', 'json[a].chars', 'json[a][chars]']
    """

    has_sizes = True
    """The index has the sizes of parts."""

    def __init__(self, parts: Collection[str]) -> None:
        self.parts = parts

    def meant(self, text: str) -> tuple[ValueName, ...]:
        """Return the values that a name may mean in the dataset; which exist, only the samples tell.

        Besides the printed names, it takes dots or underscores instead of brackets, ``json.a.b`` and ``json_a_b``, and
        the name of a trait or key alone: ``width``, ``label``.

        Raises:
            ValueError: The text is not a name.
        """
        name = parse_value_name(text)
        # The text may be a name as it is printed.
        if name.part in self.parts:
            return tuple(self._exact(name))
        if name.trait and not name.path and f"{name.part}.{name.trait}" in self.parts:
            return (ValueName(f"{name.part}.{name.trait}"),)
        # With brackets, the dots before them may lead into a JSON part.
        if name.path:
            around = [part for part in self.parts if self.is_tree(part) and name.part.startswith(f"{part}.")]
            inside = (_divided(name.part[len(part) + 1 :], ".", ends=False) for part in around)
            divided = [
                ValueName(part, (*path, *name.path), name.trait)
                for part, some in zip(around, inside, strict=True)
                for path, _ in some
            ]
            return tuple(divided)
        # Try dots before underscores, which occur in names, too.
        text = text.strip()
        if dotted := list(self._inside(text, ".")):
            return tuple(dotted)
        joined = list(self._inside(text, "_"))
        if joined:
            return tuple(value for value in joined if not value.path) or tuple(joined)
        # A trait or a key alone belongs to each part that may have it.
        bare = [ValueName(part, (), text) for part in self.parts if self.has_trait(part, text)]
        ways = list(_divided(text, ".", ends=True))
        return (*bare, *(ValueName(part, *way) for part in self.parts if PartNames.is_tree(self, part) for way in ways))

    def is_tree(self, part: str) -> bool:
        """Return True if values inside a part have names."""
        return part_extension(part) in ("json", "jsn")

    def has_trait(self, part: str, trait: str) -> bool:
        """Return True if a trait is measured of parts of such a name."""
        kind = kind_of_name(part)
        if trait in _OF_CONTENT:
            return kind in ("text", "tree")
        is_av = kind in ("audio", "video") and trait in (*_OF_VIDEO, *_OF_SOUND)  # a container of video may hold sound
        return trait == "bytes" or is_av or (kind == "image" and trait in _OF_PICTURES)

    def _exact(self, name: ValueName) -> Iterator[ValueName]:
        """Yield the value of a name that begins with a part: ``json.width`` is a key, ``json.length`` may be one."""
        is_key = name.trait not in ("", "bytes") and not name.path and self.is_tree(name.part)
        if not is_key or self.has_trait(name.part, name.trait):
            yield name
        if is_key:
            yield ValueName(name.part, (name.trait,))

    def _inside(self, text: str, separator: str) -> Iterator[ValueName]:
        """Yield the values whose names have a separator after the part and, in each way, between steps and trait."""
        for part in self.parts:
            start = (part if separator == "." else _NO_IDENTIFIER.sub("_", part)) + separator
            rest = text[len(start) :]
            if not rest or not text.startswith(start):
                continue
            if self.has_trait(part, rest):
                yield ValueName(part, (), rest)
            if self.is_tree(part):
                yield from (ValueName(part, path, trait) for path, trait in _divided(rest, separator, ends=True))


class ColumnNames(PartNames):
    """The names of the columns of rows, whose values may be of any type."""

    has_sizes = False

    def is_tree(self, part: str) -> bool:  # noqa: ARG002 - all are alike
        return True

    def has_trait(self, part: str, trait: str) -> bool:  # noqa: ARG002 - all are alike
        return trait in _OF_CONTENT


def first_names(names: Collection[Any]) -> str:
    """Return the first of some names as a list for a message."""
    first = [str(name) for name in names][:20]
    return ", ".join(first) + (", …" if len(names) > len(first) else "") if first else "nothing"


def _divided(text: str, separator: str, *, ends: bool) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the ways to read a text as steps, which may hold the separator, and if it ends so, as a trait of them."""
    words = text.split(separator)
    if len(words) > _MAX_WORDS:
        words = [separator.join(words[: 1 - _MAX_WORDS]), *words[1 - _MAX_WORDS :]]
    for count in range(len(words)):
        for cuts in combinations(range(1, len(words)), count):
            edges = [0, *cuts, len(words)]
            steps = [separator.join(words[start:end]) for start, end in pairwise(edges)]
            if ends and len(steps) > 1 and steps[-1] in _OF_CONTENT:
                yield tuple(map(_as_step, steps[:-1])), steps[-1]
            yield tuple(map(_as_step, steps)), ""


def _as_step(word: str) -> str | int:
    return int(word) if _INTEGER.fullmatch(word) else word


def _parse_step(step: re.Match[str], text: str) -> str | int:
    plain = step["plain"]
    if plain is None:
        return _unescape(step)
    if not plain:
        raise ValueError(f"expected a key or a number inside [] at character {step.start() + 1} of {text!r}")
    return _as_step(plain)


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPED.sub(r"\1", match["double"] if match["double"] is not None else match["single"])


def _joined(part: str, path: tuple[str | int, ...]) -> str:
    return part + "".join([f"[{_format_step(step)}]" for step in path])


@lru_cache(maxsize=1000)
def _format_part(part: str, *, is_alone: bool = False) -> str:
    ending = part.rpartition(".")
    is_unclear = is_alone and (part in _RESERVED or (ending[0] and ending[2] in TRAITS))
    if _PART.fullmatch(part) and not iskeyword(part) and not is_unclear:
        return part
    return f"part({_quoted(part)})"


@lru_cache(maxsize=4000)
def _format_step(step: str | int) -> str:
    return _quoted(step) if isinstance(step, str) and _NEEDS_QUOTES.search(step) else str(step)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _nearest(step: object, names: Mapping[Any, Any]) -> str:
    nearest = nearest_names(str(step), [str(name) for name in names], limit=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""
