"""Tags of samples: texts that users give them in the pages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...dataset.dataset import Dataset
from ...errors import ConfigError
from ...format.columns.column_files import open_column, write_column
from ...format.nv_meta import LOCK
from ...version import __version__

_COLUMN = "tag"  # the column that keeps the tags
_MAX_CHARACTERS = 80  # of a tag
_MAX_TAGS = 1000  # the codes of the column have 16 bits


def tags(folder: Dataset) -> tuple[str, ...]:
    """Return the tags that samples of a dataset have had."""
    if _COLUMN not in folder.documents.column_names():
        return ()
    return tuple(open_column(folder.storage, folder.index, _COLUMN).record.categories)


def tag_samples(folder: Dataset, numbers: Sequence[int], tag: str) -> int:
    """Set the tag of samples, or remove it (an empty text); return the number of samples that now have it."""
    if len(tag) > _MAX_CHARACTERS:
        raise ConfigError(f"expected a tag of at most {_MAX_CHARACTERS} characters, found {len(tag)}", hint="cut it")
    # No other writer changes the tags between reading and writing them.
    with folder.storage.lock(LOCK, wait=True):
        # Read the tags that samples have.
        codes = np.full(len(folder.index), -1, np.int16)
        names: list[str] = []
        if _COLUMN in folder.documents.column_names():
            column = open_column(folder.storage, folder.index, _COLUMN)
            names = list(column.record.categories)
            if not names:
                raise ConfigError(
                    f"column 'tag' has {column.kind}", at=folder.path, hint="remove or rename this column"
                )
            codes = np.where(column.is_known(), column.values, -1).astype(np.int16)
        # Add the tag, and set it.
        if tag and tag not in names:
            names.append(tag)
        if len(names) > _MAX_TAGS:
            raise ConfigError(f"there are {_MAX_TAGS:,} tags already", at=folder.path, hint="use one of them")
        code = names.index(tag) if tag else -1
        codes[np.asarray(numbers, np.int64)] = code
        write_column(
            folder.storage,
            folder.index,
            _COLUMN,
            codes,
            missing=-1,
            categories=names or ["untagged"],
            description="tags of energon browse",
            made_by=f"energon browse {__version__}",
            is_locked=True,
        )
    return int((codes == code).sum()) if tag else 0
