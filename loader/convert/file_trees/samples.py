"""Files that share a name are the parts of a sample."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from ..rows.keys import unique_part


def group_files(names: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """Group the files of a folder to samples; names that differ only in their Unicode form are equal.

    Args:
        names: Names of files.

    Returns:
        For each sample its name without the extension, and its parts: part name → file name; sorted.

    >>> group_files(["b.jpg", "a.jpg", "a.txt", "b.jpg.json", "b.seg.png"])
    [('a', {'jpg': 'a.jpg', 'txt': 'a.txt'}), ('b', {'jpg': 'b.jpg', 'json': 'b.jpg.json', 'seg.png': 'b.seg.png'})]
    """
    composed = [(name if name.isascii() else unicodedata.normalize("NFC", name), name) for name in sorted(names)]
    present = {name for name, _ in composed}
    stems = {name.rpartition(".")[0] for name in present}
    samples: dict[str, dict[str, str]] = {}
    for name, file in composed:
        stem, _, extension = name.rpartition(".")
        part = extension.lower()
        if stem in present:  # b.jpg.txt next to b.jpg
            stem = stem.rpartition(".")[0]
        else:
            first, _, inner = stem.partition(".")
            is_number = first.isdecimal() and inner.isdecimal()  # 0.5.jpg next to 0.jpg
            if inner and first in stems and not is_number:  # b.seg.png next to b.jpg
                stem, part = first, f"{inner}.{extension}".lower()
        parts = samples.setdefault(stem, {})
        parts[unique_part(part, parts)] = file  # a.jpg and a.JPG
    return sorted(samples.items())
