"""Choose the source of a path: by its kind, if that is named, else by what is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ...errors import ConfigError, StorageError
from ...format.documents.messages import did_you_mean
from .folder import FolderSource
from .source import Source

__all__ = ["KINDS", "SourceOptions", "open_source", "open_sources"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Settings of sources; each kind uses those that it has.

    Attributes:
        parts: Part name → column of a table.
        key: Column with the keys.
        split: Column with the split parts.
        root: Folder that paths in a table or document start from; None for the folder of the file.
    """

    parts: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    split: str | None = None
    root: str | None = None


def _folder(path: str, options: SourceOptions) -> Source:  # noqa: ARG001 - as other kinds
    return FolderSource(path=path)


KINDS: Mapping[str, Callable[[str, SourceOptions], Source]] = {
    "folder": _folder,
}
"""Kind of a source, as ``--from`` takes it → a function that opens it."""


def open_sources(paths: Sequence[str], *, kind: str | None, options: SourceOptions) -> tuple[Source, ...]:
    """Open sources.

    Args:
        paths: Their paths or URLs.
        kind: Their kind; None detects it.
        options: Settings.

    Raises:
        ConfigError: The kind is unknown or cannot be detected, or an option does not fit it.
        StorageError: A path does not exist.
    """
    return tuple(open_source(path, kind=kind, options=options) for path in paths)


def open_source(path: str, *, kind: str | None, options: SourceOptions) -> Source:
    """Open a source; see :func:`open_sources`."""
    if kind is None:
        kind = _detect(path)
    if kind not in KINDS:
        raise ConfigError(
            f"there is no kind of source {kind!r}{did_you_mean(kind, [*KINDS])}",
            hint=f"name one of {', '.join(KINDS)}",
        )
    return KINDS[kind](path, options)


def _detect(path: str) -> str:
    if not os.path.lexists(path):
        raise StorageError("there is no file or folder of this name", path=path, hint="check the path")
    if os.path.isdir(path):
        return "folder"
    raise ConfigError(
        "this is no source that can be imported", at=path, hint=f"name its kind with --from: {', '.join(KINDS)}"
    )
