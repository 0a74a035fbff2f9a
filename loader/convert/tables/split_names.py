"""Find which split part a name is of: a folder, a table, a list, or a value in a column."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator

SPLIT_NAMES = frozenset({"split", "subset", "partition"})
"""Names of columns that hold split parts, without case and punctuation."""

_SPLITS = {
    **dict.fromkeys(("train", "training", "trainval"), "train"),
    **dict.fromkeys(("val", "valid", "validate", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
_SPLIT_NAMES = "|".join(sorted(_SPLITS, key=len, reverse=True))
_ANYWHERE = re.compile(rf"({_SPLIT_NAMES})\d*", re.IGNORECASE)
_PIECE = re.compile(rf"(?<![a-z])({_SPLIT_NAMES})(\d*)(?![a-z])", re.IGNORECASE)
_COMPOUND = re.compile(r"[A-Z][a-z]+([A-Z][a-z]+)")
_WORD = re.compile(
    rf"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))((?i:{_SPLIT_NAMES}|development|evaluation|eval))(?i:set)?(?![a-z])"
)
_SPLIT_OF_FILE = re.compile(rf"({_SPLIT_NAMES})(?:[-_.].*)?", re.IGNORECASE)


def is_split_name(value: str) -> bool:
    """Return True for the name of a split part.

    >>> is_split_name("Testing"), is_split_name("PublicTest"), is_split_name("train2014")
    (True, True, False)
    """
    return _split_of_value(value) is not None


def _split_of_value(value: str) -> str | None:
    text = value.strip()
    compound = _COMPOUND.fullmatch(text)
    return _SPLITS.get(text.lower()) or _SPLITS.get(compound[1].lower() if compound else "")


def split_of_words(path: str) -> str:
    """Return the split part in the words of a path; an empty text for none. An evaluation set is a part of its own.

    >>> split_of_words("clean_testset_wav/p1.wav"), split_of_words("trainA_1.png"), split_of_words("latest/1.png")
    ('test', 'train', '')
    """
    words = _WORD.findall(path)
    return _SPLITS.get(words[-1].lower(), words[-1].lower()) if words else ""


def names_of_parts(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the different names that paths have for each split part, for parts of several names.

    >>> names_of_parts(["dev/a.csv", "val/a.csv", "train/a.csv", "trainval.txt"])
    {'val': ['dev', 'val']}
    """
    words = {words[-1].lower() for path in paths if (words := _WORD.findall(path))} - {"trainval"}
    names: dict[str, list[str]] = {}
    for word in sorted(words & _SPLITS.keys()):
        names.setdefault(_SPLITS[word], []).append(word)
    return {split: several for split, several in names.items() if len(several) > 1}


def split_part(value: str) -> str:
    """Return the split part of a value in a split column.

    >>> split_part("Validation"), split_part("train"), split_part("fold 3")
    ('val', 'train', 'fold 3')
    """
    return _split_of_value(value) or value.strip()


def split_of_folder(name: str) -> str:
    """Return the split part of a folder that is named after one; an empty text for another folder.

    >>> split_of_folder("Validation"), split_of_folder("train2017"), split_of_folder("trains")
    ('val', 'train', '')
    """
    match = _PIECE.fullmatch(name)
    return _SPLITS[match[1].lower()] if match else ""


def split_of_name(name: str) -> str:
    """Return the split part of a name such as ``data/train-00000-of-00002.parquet`` or ``test/0000.parquet``.

    >>> split_of_name("train/0000.parquet"), split_of_name("train_test_split/list.json")
    ('train', '')
    """
    for component in reversed(name.split("/")):
        match = _SPLIT_OF_FILE.fullmatch(component)
        if match and {split_part(word) for word in _WORD.findall(component)} != {"train", "test"}:
            return split_part(match[1])
    return ""


def subset_of_file(path: str) -> str:
    """Return the piece of a file's name that names a split part, with its number.

    >>> subset_of_file("annotations/captions_train2017.json"), subset_of_file("trains.json")
    ('train2017', '')
    """
    match = _PIECE.search(os.path.basename(path))
    return match[0] if match else ""


def name_without_split(path: str) -> str:
    """Return a path without the split parts that its folders and its file are named after.

    >>> name_without_split("train/cat_train.txt"), name_without_split("labels_bob.csv")
    ('/cat_.txt', 'labels_bob.csv')
    """
    return "/".join(_PIECE.sub("", name, 1) for name in path.split("/"))


def split_of_file(path: str) -> str:
    """Return the split part that a file or its folder is named after; an empty text if there is none.

    >>> split_of_file("captions_val2017.json"), split_of_file("valid/_annotations.coco.json"), split_of_file("a/b.json")
    ('val', 'val', '')
    """
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return split_of_folder(subset_of_file(path)) or split_of_folder(folder)


def is_of_several_splits(path: str) -> bool:
    """Return True for a file that is named after training and validation: what only one of these names is in that."""
    return subset_of_file(path).lower().startswith("trainval")


def pieces_of_splits(name: str) -> Iterator[tuple[str, str]]:
    """Yield what is left of a name without each name of a split part in it, and the part.

    >>> [*pieces_of_splits("latest_train2017.txt")]
    [('la_train2017.txt', 'test'), ('latest_.txt', 'train')]
    """
    for match in _ANYWHERE.finditer(name):
        yield name[: match.start()] + name[match.end() :], _SPLITS[match[1].lower()]


def splits_of_names(names: Collection[str]) -> dict[str, str]:
    """Return the names of split parts, and these parts.

    All may begin with the name of a part, or several may differ in it alone, but for numbers: ``my_train_x``.

    >>> splits_of_names({"train", "x_train_hr", "x_test_hr", "test_tube"})
    {'train': 'train', 'x_test_hr': 'test', 'x_train_hr': 'train'}
    >>> splits_of_names({"train-clean-100", "dev-clean"}), splits_of_names({"trainlist.txt", "vallist.txt"})
    ({'dev-clean': 'val', 'train-clean-100': 'train'}, {'trainlist.txt': 'train', 'vallist.txt': 'val'})
    """
    splits = {name: split for name in sorted(names) if (split := split_of_folder(name))}
    others = sorted({*names} - splits.keys())
    alike: dict[str, dict[str, str]] = {"": {**splits, **{name: split_of_name(name) for name in others}}}
    if not all(alike[""].values()):
        del alike[""]
    for name in others:
        for rest, split in pieces_of_splits(name):
            alike.setdefault(re.sub("[0-9]+", "0", rest), {})[name] = split
    for group in alike.values():
        is_whole = "train" in group.values() and len({*group.values()}) > 1  # x_dev and x_test may be other data
        splits |= group if is_whole else {}
    return splits


def splits_of_files(names: Collection[str]) -> dict[str, str]:
    """Return the split part that the name of each table or list gives; an empty text for none."""
    last = splits_of_names({posixpath.basename(name) for name in names})
    return {name: split_of_name(name) or last.get(posixpath.basename(name), "") for name in names}
