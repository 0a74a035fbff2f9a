"""Find split parts in the names of files and folders."""

from __future__ import annotations

import os
import re

_SPLITS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
}
_PIECE = re.compile(rf"(?<![a-z])({'|'.join(sorted(_SPLITS, key=len, reverse=True))})(\d*)(?![a-z])", re.IGNORECASE)


def split_of_folder(name: str) -> str:
    """Return the split part of a folder that is named after one; an empty text for another folder.

    >>> split_of_folder("Validation"), split_of_folder("train2017"), split_of_folder("trains")
    ('val', 'train', '')
    """
    match = _PIECE.fullmatch(name)
    return _SPLITS[match[1].lower()] if match else ""


def subset_of_file(path: str) -> str:
    """Return the piece of a file's name that names a split part, with its number.

    >>> subset_of_file("annotations/captions_train2017.json"), subset_of_file("trains.json")
    ('train2017', '')
    """
    match = _PIECE.search(os.path.basename(path))
    return match[0] if match else ""


def split_of_file(path: str) -> str:
    """Return the split part that a file or its folder is named after; an empty text if there is none.

    >>> split_of_file("captions_val2017.json"), split_of_file("valid/_annotations.coco.json"), split_of_file("all.json")
    ('val', 'val', '')
    """
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return split_of_folder(subset_of_file(path)) or split_of_folder(folder)
