"""What a store says of a key that names nothing."""

from __future__ import annotations

from ..errors import SampleError

__all__ = ["MissingFileError"]


class MissingFileError(SampleError, KeyError, FileNotFoundError):
    """A store has no file of this key, or several.

    It is a :class:`~loader.errors.SampleError`, so that a run skips and counts the sample that asked; and a
    ``KeyError`` and a ``FileNotFoundError``, as dicts and folders raise them.
    """
