"""Find the files of a tree that values name: the one place that knows how tables and documents write names."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Sequence
from operator import itemgetter
from typing import Final
from urllib.parse import unquote

from ...accounting.kinds import MEDIA_KINDS, kind_of_name
from .named_files import MAIN_NAMES, ROLE_NAMES, Hit, is_link, path_of_url, split_extension

PATH, END, BASE_NAME, STEM, NUMBER = range(5)
"""How values name files, from strong to weak: by the path, by the end of a path, and by the last name: as it is,
without the extension, and without leading zeros, too."""

FORMS: Final = ("path", "end of a path", "base name", "name without extension", "number")
_MAX_TEXT = 1024
_PADDED = re.compile(r"_(0[0-9]{5,})$")  # the id of a picture behind a prefix, as in COCO_val2014_000000000042
_ODD = re.compile(r"[\\?%]|://|[^\x00-\x7f]|\s$|^\s|/$")  # in values that name files in another form


class NameIndex:
    """The names of the files of a tree, by their last components.

    Args:
        names: Names from the outer folder on.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._last: dict[str, int | list[int]] = {}
        self._stems: dict[str, int | list[int]] = {}
        self._numbers: dict[str, int | list[int]] = {}
        for file_number, name in enumerate(names):
            last = _composed(name.rpartition("/")[2])
            stem = split_extension(last)[0]
            _add(self._last, last, file_number)
            _add(self._stems, stem, file_number)
            digits = stem if stem.isdecimal() else _PADDED.search(stem)
            if digits is not None:
                _add(self._numbers, (digits if isinstance(digits, str) else digits[1]).lstrip("0"), file_number)

    def of_stem(self, stem: str) -> Sequence[int]:
        """Return the numbers of the files of a name without the extension."""
        numbers = self._stems.get(_composed(stem), [])
        return [numbers] if isinstance(numbers, int) else numbers

    def find(self, text: str, folder: str, owner: str = "") -> Hit | None:
        """Return the file that a value names; of several, the one nearest to the table; None if that is unclear.

        Args:
            folder: Folder of the file that has the value.
            owner: Name of that file: a folder of this name has precedence.
        """
        last = text.rpartition("/")[2]
        # Most values are no names: they end after these tests.
        if last not in self._last and last not in self._stems:
            if text.isdecimal() and (same := self._numbers.get(text.lstrip("0"))) is not None:
                return self._nearest(same, text, NUMBER, folder, owner)
            if len(text) > _MAX_TEXT or not _ODD.search(text):
                return None
            text = _plain(text)
            last = text.rpartition("/")[2]
        for form, names in ((BASE_NAME, self._last), (STEM, self._stems)):
            if last in names and (hit := self._nearest(names[last], text, form, folder, owner)) is not None:
                return hit
        return None

    def _nearest(self, numbers: int | list[int], text: str, form: int, folder: str, owner: str) -> Hit | None:
        """Return the nearest of some files of one name, and how the text names it."""
        if isinstance(numbers, int):
            return Hit(numbers, _form(self.names[numbers], text, form, folder))
        ranked = []
        for file_number in numbers:
            name = self.names[file_number]
            above = posixpath.dirname(name)
            actual = _form(name, text, form, folder)
            named = owner.lower() in above.lower().split("/")
            is_medium = kind_of_name(split_extension(name)[1]) in MEDIA_KINDS
            is_main = all(MAIN_NAMES.fullmatch(each) or not ROLE_NAMES.fullmatch(each) for each in above.split("/"))
            same = _same_begin(above, folder)
            is_above = same == (above.count("/") + 1 if above else 0)  # in the folder of the table, or one above it
            rank = (-actual, _same_end(name, text), named, same, is_above, is_medium, is_main)
            ranked.append((rank, file_number, above))
        best = max(ranked, key=itemgetter(0))
        nearest = {above for rank, _, above in ranked if rank == best[0]}
        return Hit(best[1], -best[0][0]) if len(nearest) == 1 else None


def _form(name: str, text: str, form: int, folder: str) -> int:
    """Return how a text names a file, whose last name it has in the given form."""
    if form == NUMBER or (form == STEM and "/" not in text):
        return form
    named = name if form == BASE_NAME else name[: len(name) - len(name.rpartition("/")[2])] + text.rpartition("/")[2]
    if named == text or (folder and named == f"{folder}/{text}"):
        return PATH
    if "/" not in text:
        return form
    if named in (_normal(text), _normal(posixpath.join(folder, text))):
        return PATH
    return END if _same_end(named, text) > 1 else form


def _add(names: dict[str, int | list[int]], name: str, file_number: int) -> None:
    before = names.setdefault(name, file_number)
    if isinstance(before, list):
        before.append(file_number)
    elif before != file_number:
        names[name] = [before, file_number]


def _composed(name: str) -> str:
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def _plain(text: str) -> str:
    """Return a value as a path: without the host of a URL, and as this system writes paths."""
    text = text.strip()
    if is_link(text):
        text = unquote(path_of_url(text))
    elif "?" in text:  # /data/local-files/?d=upload/1.jpg
        text = unquote(text.rpartition("=")[2] if "=" in text else text.partition("?")[0])
    return _composed(text.replace("\\", "/")).rstrip("/")


def _normal(path: str) -> str:
    return posixpath.normpath(path).lstrip("/")


def _same_end(name: str, other: str) -> int:
    """Return the number of last components that two paths share."""
    pairs = zip(reversed(name.split("/")), reversed(other.split("/")), strict=False)
    return next((same for same, (a, b) in enumerate(pairs) if a != b), min(name.count("/"), other.count("/")) + 1)


def _same_begin(folder: str, other: str) -> int:
    """Return the number of first components that two folders share."""
    pairs = zip(folder.split("/"), other.split("/"), strict=False)
    return next(
        (same for same, (a, b) in enumerate(pairs) if a != b or not a), min(folder.count("/"), other.count("/")) + 1
    )
