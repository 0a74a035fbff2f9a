"""Which split file of a dataset is in force, and what it says."""

from __future__ import annotations

from ..storage import Storage
from .nv_meta import FOLDER, SPLIT_JSON, SPLIT_YAML
from .split_config import SplitConfig, parse_split_config

__all__ = ["read_split_config", "split_file_in_force"]


def split_file_in_force(storage: Storage, name: str = SPLIT_YAML) -> str | None:
    """Give the name in ``.nv-meta`` of the split file that counts; None where there is none.

    Args:
        storage: The dataset.
        name: The file asked for. ``split.json`` serves where there is no ``split.yaml``, and none for another name.
    """
    for candidate in (name, SPLIT_JSON) if name == SPLIT_YAML else (name,):
        if storage.exists(f"{FOLDER}/{candidate}"):
            return candidate
    return None


def read_split_config(storage: Storage, name: str = SPLIT_YAML) -> SplitConfig | None:
    """Read the split file in force; None where there is none.

    Raises:
        ConfigError: It says something wrong.
    """
    found = split_file_in_force(storage, name)
    if found is None:
        return None
    file = f"{FOLDER}/{found}"
    return parse_split_config(storage.read(file).decode("utf-8", "replace"), file=storage.path(file))
