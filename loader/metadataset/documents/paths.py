"""What a metadataset's paths mean, and whether something lies there."""

from __future__ import annotations

import os
from functools import cache

from ..errors import StorageError
from ..format.nv_meta import INFO_JSON, INFO_YAML
from ..storage import open_storage
from .parse_aux import FILESYSTEM

__all__ = ["DatasetPaths", "is_metadataset", "is_url", "resolve_aux", "resolve_path", "shown_path"]

_MOST_LETTERS = 1000


def is_metadataset(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path names a metadataset: a YAML file.

    >>> is_metadataset("mix.yaml"), is_metadataset("./coco")
    (True, False)
    """
    return os.fspath(path).endswith((".yaml", ".yml"))


def is_url(path: str) -> bool:
    """Tell whether a resolved path is no path of this machine."""
    return "://" in path


def resolve_path(path: str, folder: str) -> str:
    """Give the absolute path that a path in a document means; URLs of other machines stay as they are.

    Args:
        path: As written: relative, absolute, or a URL.
        folder: The absolute folder of the document.

    >>> resolve_path("./coco", "/data"), resolve_path("../a", "/data/x"), resolve_path("file:///b", "/data")
    ('/data/coco', '/data/a', '/b')
    >>> resolve_path("msc://profile/bucket/ds", "/data")
    'msc://profile/bucket/ds'
    """
    scheme, separator, rest = path.partition("://")
    if separator and scheme not in ("file", "local"):
        return path
    return os.path.normpath(os.path.join(folder, rest if separator else path))


def resolve_aux(store: str, folder: str) -> str:
    """Give what an auxiliary store in a document means, likewise.

    >>> resolve_aux("filesystem://./files", "/data"), resolve_aux("./images", "/data")
    ('filesystem:///data/files', '/data/images')
    """
    if store.startswith(FILESYSTEM):
        return FILESYSTEM + os.path.normpath(os.path.join(folder, store.removeprefix(FILESYSTEM)))
    return resolve_path(store, folder)


def shown_path(path: str) -> str:
    """Write a path in full, as paths in messages must be, unless it is none that a system takes.

    >>> shown_path("/data/" + "x" * 200)[-3:], len(shown_path("x" * 10_000))
    ("xx'", 1003)
    """
    return repr(path if len(path) <= _MOST_LETTERS else f"{path[:_MOST_LETTERS]}…")


class DatasetPaths:
    """Looks up what lies at resolved paths, each once, and tells what is wrong with one; None where nothing is."""

    def __init__(self) -> None:
        self.fault_of_dataset = cache(_fault_of_dataset)
        self.fault_of_aux = cache(_fault_of_aux)


def _fault_of_dataset(path: str) -> str | None:
    if is_url(path):
        return None  # opening it says whether that can be read
    if path.endswith(".jsonl"):
        return None if _exists(path) else f"there is no such file: {shown_path(path)}"
    if not _exists(path):
        return f"there is no such folder: {shown_path(path)}"
    if any(_exists(os.path.join(path, name)) for name in (INFO_JSON, INFO_YAML)):
        return None
    name = shown_path(path)
    return f"{name} is no prepared dataset: it has no .nv-meta/.info.json; run: energon prepare {name}"


def _fault_of_aux(store: str) -> str | None:
    if not store.startswith(FILESYSTEM):
        return _fault_of_dataset(store)
    folder = store.removeprefix(FILESYSTEM)
    return None if _exists(folder) else f"there is no such folder: {shown_path(folder)}"


def _exists(path: str) -> bool:
    folder, name = os.path.split(path)
    try:
        return open_storage(folder).exists(name)
    except StorageError:
        return False
