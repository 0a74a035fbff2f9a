"""Tag samples: the column ``tag`` of a dataset has a text for each sample that has one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...dataset.dataset import Dataset
from ...errors import ConfigError
from ...format.columns.column import open_column, write_column
from ...version import __version__

_COLUMN = "tag"
_MAX_CHARACTERS = 80
_MAX_TAGS = 1000


def tags(folder: Dataset) -> tuple[str, ...]:
    """Return the tags that samples of a dataset have had.

    Raises:
        FormatError: The column is damaged, or of an earlier version of the dataset.
    """
    if _COLUMN not in folder.documents.column_names():
        return ()
    return tuple(open_column(folder.storage, folder.index, _COLUMN).record.categories)


def tag_samples(folder: Dataset, numbers: Sequence[int], tag: str) -> int:
    """Set the tag of samples, and return the number of samples that now have it.

    Args:
        folder: The dataset.
        numbers: Numbers of the samples.
        tag: The tag; an empty text removes that of the samples.

    Raises:
        ConfigError: The tag is too long, there are too many, or the column ``tag`` has numbers.
        FormatError: The column is damaged, or of an earlier version of the dataset.
        StorageError: The column cannot be written.
    """
    if len(tag) > _MAX_CHARACTERS:
        raise ConfigError(f"expected a tag of at most {_MAX_CHARACTERS} characters, found {len(tag)}", hint="cut it")
    codes = np.full(len(folder.index), -1, np.int16)
    names: list[str] = []
    if _COLUMN in folder.documents.column_names():
        column = open_column(folder.storage, folder.index, _COLUMN)
        names = list(column.record.categories)
        if not names:
            raise ConfigError("column 'tag' has numbers", at=folder.path, hint="remove or rename this column")
        codes = np.where(column.is_known(), column.values, -1).astype(np.int16)
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
    )
    return int((codes == code).sum()) if tag else 0
