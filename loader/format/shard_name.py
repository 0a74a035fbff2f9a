"""Which names of shards the files in ``.nv-meta`` may hold: those files may be another's work."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["check_shard_names"]


def check_shard_names(names: Iterable[str]) -> None:
    """See that each name is one of a tar file inside the dataset, relative to it.

    Raises:
        ValueError: One leads elsewhere: files are read, and written beside, where these names say.

    >>> check_shard_names(["../s.tar"])
    Traceback (most recent call last):
    ValueError: expected the name of a .tar file in the dataset, found '../s.tar'
    """
    for name in names:
        if not name.endswith(".tar") or "\0" in name or not {"", ".", ".."}.isdisjoint(name.split("/")):
            shown = repr(name if len(name) <= 120 else name[:119] + "…")
            raise ValueError(f"expected the name of a .tar file in the dataset, found {shown}")
