"""Describe the files of a folder that holds no shards."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping

from ...storage import FileInfo

_MAX_EXTENSIONS = 5  # in a message


def count_extensions(files: Iterable[FileInfo]) -> dict[str, int]:
    """Count files by extension, the most frequent first; files without one under the empty text."""
    counts = Counter(os.path.splitext(file.name.rsplit("/", 1)[-1])[1] for file in files)
    return dict(counts.most_common())


def count_text(counts: Mapping[str, int]) -> str:
    """Format counts of files by extension.

    >>> count_text({".jpg": 1300, ".txt": 1300, "": 1})
    '1,300 .jpg, 1,300 .txt and 1 file without an extension'
    """
    shown = list(counts.items())[:_MAX_EXTENSIONS]
    texts = [f"{count:,} {extension}" for extension, count in shown if extension]
    unnamed = dict(shown).get("", 0)
    if unnamed:
        texts.append(f"{unnamed:,} {'file' if unnamed == 1 else 'files'} without an extension")
    rest = sum(counts.values()) - sum(count for _, count in shown)
    if rest:
        texts.append(f"{rest:,} other files")
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
