"""Recognise names of classes, and numbers, by all values of a column or by some texts of a part."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_MAX_CLASSES = 1000  # as ImageNet has; more different texts are names of things, not of classes
_MIN_REPEATS = 3  # texts of each class, on average: a few equal captions are no classes
_MAX_SURE_CLASSES = 9  # too few to expect repetitions, if the column is named as labels are
_MAX_WORDS = 3  # of a name of a class: "African hunting dog"
_MAX_CHARACTERS = 40
_NUMBERS = re.compile(r"[\s.,;:+()[\]-]*\d[\d\s.,;:+()[\]eE-]*")  # boxes, coordinates, codes
_MAX_JUDGED = 100  # texts that are compared with numbers


@dataclass(slots=True)
class Texts:
    """Collect what texts have in common; none is empty.

    Attributes:
        judged: Texts that were compared with numbers: the first ones.
        numeric: Texts among them that are mostly numbers.
        values: The different texts, in any order; None if they are too many, or too long, for names of classes.
    """

    count: int = 0
    judged: int = 0
    numeric: int = 0
    values: set[str] | None = field(default_factory=set)

    @property
    def has_words(self) -> bool:
        """True unless most texts are mostly numbers."""
        return 2 * self.numeric <= self.judged

    def add(self, texts: Sequence[str]) -> None:
        values, judged = set(texts), texts[: max(0, _MAX_JUDGED - self.judged)]
        numeric = sum(map(_is_mostly_numbers, judged))
        self.merge(Texts(len(texts), len(judged), numeric, values if all(map(_is_name, values)) else None))

    def merge(self, other: Texts) -> None:
        """Add other texts."""
        self.count += other.count
        self.judged += other.judged
        self.numeric += other.numeric
        values = None if self.values is None or other.values is None else self.values | other.values
        self.values = values if values is not None and len(values) <= _MAX_CLASSES else None

    def classes(self, *, are_labels: bool = False) -> tuple[str, ...]:
        """Return the sorted names of classes; none for other texts.

        Args:
            are_labels: A name says that these are labels, so that few texts are enough.

        >>> texts = Texts()
        >>> texts.add(["cat", "dog", "cat"])
        >>> texts.classes(), texts.classes(are_labels=True)
        ((), ('cat', 'dog'))
        """
        names = tuple(sorted(self.values or ()))
        is_sure = are_labels and len(names) <= max(self.count // 2, _MAX_SURE_CLASSES)
        is_few = len(names) > 1 and _MIN_REPEATS * len(names) <= self.count
        return names if is_sure or is_few else ()


def _is_mostly_numbers(text: str) -> bool:
    """Return True if most words are numbers; or half of them, with more digits than other characters."""
    words = re.split(r"[\s,;]+", text.strip())
    others = sum(_NUMBERS.fullmatch(word) is None for word in words)
    has_more_digits = 2 * sum(map(str.isdigit, text)) > sum(map(len, words))
    return 2 * others < len(words) or (2 * others == len(words) and has_more_digits)


def _is_name(text: str) -> bool:
    return len(text) <= _MAX_CHARACTERS and len(text.split()) <= _MAX_WORDS and text.isprintable()
