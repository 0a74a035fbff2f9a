"""The error about keys that a dataset does not have, with the nearest key."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Sequence
from itertools import islice

from ...errors import ConfigError
from ..dataset_folder import DatasetFolder
from ..documents.messages import nearest_names
from ..single_file import SingleFile

_MAX_UNKNOWN = 5
_MAX_KEYS = 200_000  # that are listed to find a near one
_MAX_NEAR = 20  # of equal similarity, the one that has the key in whole is meant: 00102 for 102
_MAX_COMPARED = 400  # comparing two names takes some 20 µs


def unknown_key_error(folders: Sequence[DatasetFolder], keys: Sequence[str], *, at: str) -> ConfigError:
    """Return the error about keys that some datasets do not have. If it is one key of one dataset, a near one is named.

    Args:
        folders: The datasets, or single files of samples; at least one.
        keys: ``<shard>/<key>``, or bare keys; at least one.
        at: The path that names the datasets.
    """
    folder = folders[0]
    hint = "keys are written as energon preview shows them: '<shard>/<key>', or the key alone"
    if len(folders) == 1 and isinstance(folder, SingleFile):
        hint = f"keys are the numbers from 0 to {len(folder.index) - 1}"
    shown = ", ".join(map(repr, keys[:_MAX_UNKNOWN]))
    more = f" and {len(keys) - _MAX_UNKNOWN:,} more" if len(keys) > _MAX_UNKNOWN else ""
    near = _nearest_key(folder, keys[0]) if len(keys) == len(folders) == 1 else None
    return ConfigError(
        f"there is no sample {shown}{more}" + (f"; did you mean {near!r}?" if near else ""), at=at, hint=hint
    )


def _nearest_key(folder: DatasetFolder, key: str) -> str | None:
    """Return the most similar key of the shard that a key names, or of the first shards."""
    index = folder.index
    if isinstance(folder, SingleFile):
        return None
    shards = {shard.name: shard for shard in index.shards}
    name = next((name for name in shards if key.startswith(f"{name}/")), None)
    bare = key if name is None else key.removeprefix(f"{name}/")
    if name is None and "/" in key:
        before, _, bare = key.rpartition("/")
        name = _nearest(before, shards)
        if name is None:
            return None
        if index.find(f"{name}/{bare}"):
            return f"{name}/{bare}"
    some = shards.values() if name is None else [shards[name]]
    near = _nearest(bare, (index.key(sample) for shard in some for sample in index.samples_of(shard)))
    return near if name is None or near is None else f"{name}/{near}"


def _nearest(name: str, known: Iterable[str]) -> str | None:
    names = sorted(islice(known, _MAX_KEYS))
    if len(names) > _MAX_COMPARED:
        place = bisect(names, name)
        names = names[max(0, place - _MAX_COMPARED // 2) : place + _MAX_COMPARED // 2]
    near = nearest_names(name, names, limit=_MAX_NEAR)
    return next((one for one in near if one.endswith(name)), near[0] if near else None)
