"""Find the files of a tree that values name: the one place that knows how tables and documents write names."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final
from urllib.parse import unquote

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...parts.kinds import MEDIA_KINDS, kind_of_name
from .named_files import MAIN_NAMES, ROLE_NAMES, Hit, is_link, path_of_url, split_extension

PATH, END, BASE_NAME, STEM, NUMBER = range(5)
"""How values name files, from strong to weak: by the path, by the end of a path, and by the last name: as it is,
without the extension, and without leading zeros, too."""

FORMS: Final = ("path", "end of a path", "base name", "name without extension", "number")
_MAX_TEXT = 1024
_BITS_OF_KEY = 8  # of a table that shows which hashes are known: one of eight or more others is taken for known
_PADDED = re.compile(r"_(0[0-9]{5,})$")  # the id of a picture behind a prefix, as in COCO_val2014_000000000042
_MANY = 8  # files of one name, which are worth a shorter way
_MAX_NEAR = 1 << 16  # names of many files that are kept
_ODD = re.compile(r"[\\?%#]|://|[^\x00-\x7f]|\s$|^\s|/$")  # in values that name files in another form
_FRAGMENT = re.compile("#[^/]*$")  # of the caption 2 in a.jpg#2, if no file has the whole name


class NameIndex:
    """The names of the files of a tree, by their last components.

    Args:
        names: Names from the outer folder on.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        lasts, stems, numbers, numbered = array("q"), array("q"), array("q"), array("i")
        for file_number, name in enumerate(names):
            last = _last(name)
            stem = split_extension(last)[0]
            lasts.append(hash(last))
            stems.append(hash(stem))
            if (digits := _number_of_stem(stem)) is not None:
                numbers.append(hash(digits))
                numbered.append(file_number)
        self._near: dict[tuple[str, str, frozenset[str]], Hit | None] = {}  # the last names that many files have
        self._last, self._stems = _Keys(names, _last, lasts), _Keys(names, _stem, stems)
        self._numbers = _Keys(names, _number, numbers, numbered)

    @cached_property
    def _paths(self) -> _Keys:
        return _Keys(self.names, str, array("q", map(hash, self.names)))

    @cached_property
    def _numbered_folders(self) -> frozenset[str]:
        """Folders below which pictures, sounds or videos have numbers for names."""
        names = map(self.names.__getitem__, self._numbers.numbers)
        folders = {posixpath.dirname(name) for name in names if kind_of_name(split_extension(name)[1]) in MEDIA_KINDS}
        above = ({folder[: match.start()] for match in re.finditer("/", folder)} for folder in folders)
        return frozenset(folders.union(*above, {""}))

    def _near_numbers(self, folder: str) -> str:
        """Return the begin of the paths that numbers name: the nearest folder above them that has numbered files.

        Elsewhere, the same number is of another thing, such as a frame of another film.
        """
        while folder not in self._numbered_folders:
            folder = posixpath.dirname(folder)
        return f"{folder}/" if folder else ""

    def of_stem(self, stem: str) -> Sequence[int]:
        """Return the numbers of the files of a name without the extension."""
        return self._stems.of(_composed(stem))

    def of_name(self, last: str) -> Sequence[int]:
        """Return the numbers of the files whose last component is a name."""
        return self._last.of(_composed(last))

    def find(self, text: str, folder: str, owners: frozenset[str] = frozenset()) -> Hit | None:
        """Return the file that a value names; of several, the one nearest to the table; None if that is unclear.

        Args:
            folder: Folder of the file that has the value.
            owners: Names of folders that have precedence, in lower case: the name of that file, and its split part.
        """
        last = text.rpartition("/")[2]
        span = self._last.span(last)
        if span[1] - span[0] >= _MANY and (hit := self._of_path(text, folder)) is not None:
            return hit
        numbers = self._numbers.of(text.lstrip("0")) if text.isdecimal() else ()
        return self._find(text, (self._last.between(span, last), self._stems.of(last), numbers), folder, owners)

    def _of_path(self, text: str, folder: str) -> Hit | None:
        """Return the only file whose path a value is, from the outer folder or the folder of the table."""
        paths = [*self._paths.of(text), *(self._paths.of(f"{folder}/{text}") if folder else ())]
        return Hit(paths[0], PATH) if len(paths) == 1 else None

    def find_all(
        self, texts: Sequence[str], folder: str, owners: frozenset[str] = frozenset()
    ) -> tuple[IntArray, IntArray]:
        """Return the number of the file that each of some values names, -1 for none, and its form; see :meth:`find`."""
        joined = "\n".join((*texts, ""))
        last = [text.rpartition("/")[2] for text in texts] if "/" in joined else texts
        digits = [text.lstrip("0") if text.isdecimal() else None for text in texts]
        hashes, of_digits = (np.fromiter(map(hash, keys), np.int64, len(keys)) for keys in (last, digits))
        spans = [self._last.spans(hashes), self._stems.spans(hashes), self._numbers.spans(of_digits)]
        are_names, are_stems, are_numbers = (ends > starts for starts, ends in spans)
        files, forms = np.full(len(texts), -1, np.int64), np.full(len(texts), PATH, np.int64)
        # Most names are the path of a file, or the number of a single one.
        singles = self._last.singles(*spans[0])
        positions = np.flatnonzero(singles >= 0)
        named = zip(positions.tolist(), singles[positions].tolist(), strict=True)
        paths = [n for n, file_number in named if self.names[file_number] == texts[n]]
        files[paths] = singles[paths]
        singles = self._numbers.singles(*spans[2])
        positions = np.flatnonzero((singles >= 0) & ~are_names & ~are_stems)
        named = zip(positions.tolist(), singles[positions].tolist(), strict=True)
        near = self._near_numbers(folder) if len(positions) else ""
        names = ((n, self.names[file_number]) for n, file_number in named)
        alone = [n for n, name in names if (digits[n] or "-") in name and name.startswith(near)]
        files[alone], forms[alone] = singles[alone], NUMBER
        # Most values are no names; the rest is compared one by one.
        if _are_plain(texts, joined):
            rest = np.flatnonzero((files < 0) & (are_names | are_stems | are_numbers))
        else:
            rest = np.flatnonzero(files < 0)
        of_rest = ([*zip(starts[rest].tolist(), ends[rest].tolist(), strict=True)] for starts, ends in spans)
        for position, names, stems, numbers in zip(rest.tolist(), *of_rest, strict=True):
            is_of_many = names[1] - names[0] >= _MANY
            if is_of_many and (hit := self._of_path(texts[position], folder)) is not None:
                files[position], forms[position] = hit
                continue
            same = (
                self._last.between(names, last[position]),
                self._stems.between(stems, last[position]),
                self._numbers.between(numbers, digits[position]),
            )
            hit = self._find(texts[position], same, folder, owners)
            if hit is not None:
                files[position], forms[position] = hit
        return files, forms

    def _find(self, text: str, files: Sequence[Sequence[int]], folder: str, owners: frozenset[str]) -> Hit | None:
        """Return the file that a value names.

        Args:
            files: Numbers of the files with its last component, with it as their stem, and with it as their number.
        """
        names, stems, numbers = files
        written = text.rpartition("/")[2]
        if not names and not stems:
            if numbers:
                return self._nearest(numbers, text, NUMBER, folder, owners, written)
            if len(text) > _MAX_TEXT or not _ODD.search(text):
                return None
            text = _plain(text)
            last = text.rpartition("/")[2]
            names, stems = self._last.of(last), self._stems.of(last)
        # A name that many files have comes in many rows.
        key = (text, folder, owners)
        if len(names) + len(stems) < _MANY or key not in self._near:
            hits = (
                self._nearest(same, text, form, folder, owners, written)
                for form, same in ((BASE_NAME, names), (STEM, stems))
                if same
            )
            hit = next(filter(None, hits), None)
            if len(names) + len(stems) < _MANY:
                return hit
            if len(self._near) >= _MAX_NEAR:
                self._near.clear()
            self._near[key] = hit
        return self._near[key]

    def _nearest(  # noqa: PLR0917 - called at two places
        self, numbers: Sequence[int], text: str, form: int, folder: str, owners: frozenset[str], written: str
    ) -> Hit | None:
        """Return the nearest of some files of one name, and how the text names it.

        Args:
            written: The last component as the table has it: names may differ in their Unicode form alone.
        """
        if ".." in text and _normal(posixpath.join(folder, text)).startswith("../"):
            return None  # it leads out of the tree
        if form == NUMBER:
            near = self._near_numbers(folder)
            numbers = [n for n in numbers if self.names[n].startswith(near)]
        if len(numbers) <= 1:
            return None if not numbers else Hit(numbers[0], _form(self.names[numbers[0]], text, form, folder))
        # Of many, those in folders of the last name that the text has come first: others share less with it.
        parent = f"/{text.rpartition('/')[0].rpartition('/')[2]}/"
        alike = [n for n in numbers if parent in f"/{self.names[n]}"] if len(numbers) >= _MANY and "/" in text else ()
        ranked = []
        for file_number in alike or numbers:
            name = self.names[file_number]
            above = posixpath.dirname(name)
            actual = _form(name, text, form, folder)
            named = not owners.isdisjoint(above.lower().split("/"))
            is_medium = kind_of_name(split_extension(name)[1]) in MEDIA_KINDS
            is_main = all(MAIN_NAMES.fullmatch(each) or not ROLE_NAMES.fullmatch(each) for each in above.split("/"))
            same = _same_begin(above, folder)
            is_above = same == (above.count("/") + 1 if above else 0)  # in the folder of the table, or one above it
            ends = _same_end(above, posixpath.dirname(text))
            is_whole = not above or ends == above.count("/") + 1  # the value has all folders of the file
            is_exact = written in (posixpath.basename(name), split_extension(posixpath.basename(name))[0])
            rank = (-actual, is_exact, ends, is_whole, named, above == folder, is_main, same, is_above, is_medium)
            ranked.append((rank, same, file_number, above))
        best = max(ranked, key=itemgetter(0))
        # Other files of that name are nearer to the table: its own folder may have another name than the value says.
        nearer = "/".join(folder.split("/")[: best[1] + 1]) + "/"
        if (
            -best[0][0] == END
            and folder.count("/") >= best[1]
            and any(self.names[n].startswith(nearer) for n in numbers)
        ):
            return None
        nearest = {above for rank, _, _, above in ranked if rank == best[0]}
        return Hit(best[2], -best[0][0]) if len(nearest) == 1 else None


class _Keys:
    """The hashes of keys of names, ascending, with the numbers of their files; hits are compared with the names.

    Args:
        key: Returns the key of a name.
        hashes: Hashes of the keys of files.
        numbers: Numbers of these files; None for all.
    """

    def __init__(
        self,
        names: Sequence[str],
        key: Callable[[str], str | None],
        hashes: array[int],
        numbers: array[int] | None = None,
    ) -> None:
        self._names, self._key = names, key
        order = np.argsort(hashes, kind="stable")
        self._hashes = np.array(hashes, np.int64)[order]
        self._numbers = order.astype(np.int32) if numbers is None else np.array(numbers, np.int32)[order]
        self._files, self._view = self._numbers.data, self._hashes.data  # whose elements are read faster one by one
        self._mask = (1 << (_BITS_OF_KEY * len(hashes)).bit_length()) - 1
        self._are_known = np.zeros(self._mask + 1, bool)
        self._are_known[self._hashes & self._mask] = True

    @property
    def numbers(self) -> Sequence[int]:
        return self._files

    def of(self, key: str) -> Sequence[int]:
        """Return the numbers of the files of a key, ascending."""
        return self.between(self.span(key), key)

    def span(self, key: str) -> tuple[int, int]:
        """Return where the files with the hash of a key begin and end."""
        wanted = hash(key)
        start = bisect_left(self._view, wanted)
        return start, bisect_right(self._view, wanted, start)

    def spans(self, hashes: IntArray) -> tuple[IntArray, IntArray]:
        """Return where the files with the hashes of some keys begin and end; empty spans for unknown ones."""
        starts, ends = np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.int64)
        # Most keys are unknown: a table of the last bits of the hashes is quicker than a search.
        positions = np.flatnonzero(self._are_known[hashes & self._mask])
        wanted = hashes[positions]
        starts[positions] = first = self._hashes.searchsorted(wanted)
        are_several = self._hashes.take(first + 1, mode="clip") == wanted
        ends[positions] = first + (self._hashes.take(first, mode="clip") == wanted)
        ends[positions[are_several]] = self._hashes.searchsorted(wanted[are_several], side="right")
        return starts, ends

    def singles(self, starts: IntArray, ends: IntArray) -> IntArray:
        """Return the only files of spans, which may have other keys with the same hashes; -1 for other spans."""
        are_single = ends - starts == 1
        files = np.full(len(starts), -1, np.int64)
        files[are_single] = self._numbers[starts[are_single]]
        return files

    def between(self, span: tuple[int, int], key: str | None) -> Sequence[int]:
        """Return the files of a span that have a key; very few others have the same hash."""
        if span[0] == span[1] or key is None:
            return ()
        names, files = self._names, self._files[span[0] : span[1]]
        return [n for n in files if key in names[n] or self._key(names[n]) == key]


def _last(name: str) -> str:
    return _composed(name.rpartition("/")[2])


def _stem(name: str) -> str:
    return split_extension(_last(name))[0]


def _number(name: str) -> str | None:
    return _number_of_stem(_stem(name))


def _number_of_stem(stem: str) -> str | None:
    if stem.isdecimal():
        return stem.lstrip("0")
    digits = _PADDED.search(stem)
    return digits and digits[1].lstrip("0")


def _are_plain(texts: Sequence[str], joined: str) -> bool:
    """Return True if no text names files in another form."""
    are_odd = "\\" in joined or "?" in joined or "%" in joined or "#" in joined or "://" in joined or "/\n" in joined
    return not are_odd and joined.isascii() and [*map(str.strip, texts)] == [*texts]


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
    return END if _same_end(named, text) > 1 or "/" not in named else form


def _composed(name: str) -> str:
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def _plain(text: str) -> str:
    """Return a value as a path: without the host of a URL, and as this system writes paths."""
    text = text.strip()
    if is_link(text):
        text = unquote(path_of_url(text))
    elif "?" in text:  # /data/local-files/?d=upload/1.jpg
        text = unquote(text.rpartition("=")[2] if "=" in text else text.partition("?")[0])
    text = _FRAGMENT.sub("", text)
    return _composed(text.replace("\\", "/")).rstrip("/")


def _normal(path: str) -> str:
    return posixpath.normpath(path).lstrip("/")


def shared_end(name: str, text: str) -> str:
    r"""Return the last components of a name that a value has, too; at least the last one.

    >>> shared_end("images/train/7.jpg", "C:\\data\\train\\7.jpg"), shared_end("images/007.jpg", "7")
    ('train/7.jpg', '007.jpg')
    """
    return "/".join(name.split("/")[-max(1, _same_end(name, _plain(text))) :])


def _same_end(name: str, other: str) -> int:
    """Return the number of last components that two paths share."""
    return len(posixpath.commonprefix([name.split("/")[::-1], other.split("/")[::-1]]))


def _same_begin(folder: str, other: str) -> int:
    """Return the number of first components that two folders share."""
    return len(posixpath.commonprefix([folder.split("/"), other.split("/")])) if folder else 0
