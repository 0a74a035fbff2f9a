"""The datasets in which the keys of a quarantine file are meant: other datasets may have samples of the same keys."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...errors import ConfigError
from ..dataset import Dataset

_MAX_SHOWN = 5


@dataclass(frozen=True, slots=True)
class KeyOrigin:
    """The dataset of a key.

    Attributes:
        path: The dataset.
        uuid: Name of its index; None if it has none, as single files and joins.
    """

    path: str
    uuid: str | None

    def is_of(self, folder: Dataset) -> bool:
        """Report whether a dataset is this one: at this path, or moved with its index. A join is any of its members."""
        if self.uuid is not None and folder.index.uuid == self.uuid:
            return True
        if self.uuid is None and not os.path.exists(self.path) and "://" not in self.path:
            return True
        return _absolute(folder.path) == _absolute(self.path)


KeyOrigins: TypeAlias = Mapping[str, Sequence[KeyOrigin]]


def origin_of_row(row: Mapping[str, Any]) -> KeyOrigin | None:
    """Return the dataset that a row of JSON lines names; None if it is not one of a quarantine file."""
    path, key, uuid = row.get("dataset"), row.get("key"), row.get("uuid", 0)
    if not isinstance(path, str) or not isinstance(key, str) or "number" not in row:
        return None
    return KeyOrigin(path, uuid) if uuid is None or isinstance(uuid, str) else None


def keys_of_folder(keys: Iterable[str], origins: KeyOrigins, folder: Dataset) -> tuple[str, ...]:
    """Return the keys that are meant in a dataset: those of it, and those without an origin."""
    return tuple(key for key in keys if key not in origins or any(origin.is_of(folder) for origin in origins[key]))


def foreign_keys_error(origins: KeyOrigins, *, at: str) -> ConfigError:
    """Return the error about keys none of which is of the datasets that are named.

    Args:
        origins: The datasets of the keys.
        at: The path that was named.
    """
    paths = sorted({origin.path for some in origins.values() for origin in some})
    more = f" and {len(paths) - _MAX_SHOWN:,} more" if len(paths) > _MAX_SHOWN else ""
    return ConfigError(
        f"the file lists no sample of this dataset, but of {', '.join(paths[:_MAX_SHOWN])}{more}",
        at=at,
        hint="name one of those datasets; or list the keys alone in a .txt file, one a line",
    )


def _absolute(path: str) -> str:
    return path if "://" in path else os.path.realpath(path)
