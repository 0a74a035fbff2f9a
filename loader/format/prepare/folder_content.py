"""Describe the files of a folder that holds no shards, and how they become a dataset."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping

from ...accounting.kinds import AUDIO, IMAGE, VIDEO
from ...storage import FileInfo

WRITE_SHARDS = "docs/how-to/write-shards.md"
_MAX_EXTENSIONS = 5  # in a message
_MEDIA = AUDIO | IMAGE | VIDEO


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


def content_hint(path: str, files: Iterable[FileInfo]) -> str:
    """Return what to do with a folder that holds no shards.

    Args:
        path: The folder, as the user wrote it.
        files: Its files; at least one.
    """
    names = [file.name for file in files]
    extensions = {os.path.splitext(name)[1].lower() for name in names}
    known = set(names)
    tokens = next((name for name in names if name.endswith(".bin") and f"{name[:-4]}.idx" in known), None)
    if tokens is not None:
        return f"token files are datasets as they are: energon info {os.path.join(path, tokens)}"
    if extensions <= {".yaml", ".yml"}:
        return f"give a metadataset by its file: energon info {os.path.join(path, names[0])}"
    hint = f"write the samples to tar shards with webdataset.ShardWriter, as {WRITE_SHARDS} shows"
    if {extension.removeprefix(".") for extension in extensions} <= _MEDIA:
        hint += f"; for files that samples of another dataset name: energon prepare-media {path}"
    return hint
