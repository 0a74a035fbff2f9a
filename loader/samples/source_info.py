"""Sources of samples: the dataset, shard and files that a sample was read from."""

from __future__ import annotations

import os
from contextlib import suppress
from copyreg import __newobj__  # type: ignore[attr-defined] # not in its stub
from typing import Any, NamedTuple, TypeVar

from ..errors import escape_controls
from ..storage.epath import EPath

T = TypeVar("T")


class _SourceFields(NamedTuple):
    dataset_path: Any
    index: int | str | None  # type: ignore[assignment]  # it hides tuple.index()
    shard_name: str | None
    file_names: tuple[str, ...]


class SourceInfo(_SourceFields):
    """The files that a sample's parts were read from.

    A named tuple, whose first item is the path as it was given: text, so that sources need no objects of their own.

    Attributes:
        dataset_path: The dataset's folder, as an :class:`~loader.storage.epath.EPath`. Text that is no absolute path or
            URL stays text.
        index: The sample's index in the dataset, or its name in an auxiliary source.
        shard_name: The shard, relative to the dataset.
        file_names: The members of the shard that were read: ``("0001.jpg", "0001.txt")``.

    >>> source = SourceInfo("/data", 0, "s.tar", ("0.txt",))
    >>> source.dataset_path / source.shard_name, source == SourceInfo(EPath("/data"), 0, "s.tar", ("0.txt",))
    (EPath('/data/s.tar'), True)
    """

    # No __new__: it would run for each sample that a worker sends.
    __slots__ = ()

    @property
    def dataset_path(self) -> Any:
        path = self[0]
        if path is None or isinstance(path, EPath):
            return path
        text = os.fspath(path)
        return EPath(text) if os.path.isabs(text) or "://" in text else path

    def __reduce__(self) -> tuple[Any, ...]:
        return __newobj__, (type(self), *self)  # a worker pickles one for each sample; Python's default takes longer

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SourceInfo):
            return self[1:] == other[1:] and self.dataset_path == other.dataset_path
        return tuple.__eq__(self, other) if isinstance(other, tuple) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other  # that of tuples would compare the items

    def __hash__(self) -> int:
        return hash(self[1:])

    def __str__(self) -> str:
        where = str(self[0]) if self.shard_name is None else f"{self[0]}/{self.shard_name}"
        return escape_controls(f"{where}: {', '.join(self.file_names)}" if self.file_names else where)


def add_source_info(sample: T, *source_infos: SourceInfo) -> T:
    """Append sources to the ``__sources__`` of a sample.

    Args:
        sample: A dataclass, a dict, or any object; objects without settable attributes, such as numbers, are unchanged.
        source_infos: The sources.

    Returns:
        The same sample.

    >>> add_source_info({}, SourceInfo("/data", 0, "s.tar", ("0.txt",)))
    {'__sources__': (SourceInfo(dataset_path='/data', index=0, shard_name='s.tar', file_names=('0.txt',)),)}
    """
    sources = (*(get_source_info(sample) or ()), *source_infos)
    if isinstance(sample, dict):
        sample["__sources__"] = sources
    else:
        with suppress(AttributeError, TypeError):
            sample.__sources__ = sources  # type: ignore[attr-defined]  # may raise, which is suppressed
    return sample


def get_source_info(sample: Any) -> list[SourceInfo] | None:
    """Return the sources of a sample or batch, or of all samples of a list; None if it has no sources.

    >>> get_source_info({"txt": "a cat"}) is None
    True
    """
    if isinstance(sample, list):
        return [source for inner in sample for source in get_source_info(inner) or ()] or None
    sources = sample.get("__sources__") if isinstance(sample, dict) else getattr(sample, "__sources__", None)
    if isinstance(sources, list):  # of a batch, with a tuple for each sample
        return [source for each in sources for source in each or ()]
    return None if sources is None else list(sources)
