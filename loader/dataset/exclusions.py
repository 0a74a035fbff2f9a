"""Exclude samples, keep a journal of exclusions, and undo the last one.

The journal is written before an exclusion and after an undo, so that a kill in between leaves an entry too many, whose
undo changes nothing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from ..arrays import IntArray
from ..errors import ConfigError, FormatError
from ..format.documents.next_command import split_hint
from ..format.documents.split_config import SplitConfig, format_split_config, parse_split_config
from ..format.filters.build import build_filter_index
from ..format.filters.rows import FilterFiles, filter_names
from ..format.nv_meta import FOLDER, LOCK, is_filter_name
from ..storage import LocalStorage, RemoteStorage, Storage, read_document
from .dataset import Dataset
from .records import SingleFile
from .split_parts import excluded_samples, open_filter

EXCLUDE_JSON = f"{FOLDER}/exclude.json"

_FORMAT_VERSION = 1


class Exclusion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One exclusion of samples.

    Attributes:
        at: Time in UTC, ``2026-11-24T10:00:00Z``.
        names: The entries that it added to a split file: ``<shard>/<key>``, or shards.
        split_file: Name in ``.nv-meta`` of that file; empty for a filter.
        filter: Name of the filter that it changed; empty for a split file.
        replaced: The filter existed before; its earlier files have ``.bak`` at the end of their names.
        group: The same text in all datasets in which one command excluded samples; empty for a command on one dataset.
    """

    at: str
    reason: str
    samples: int
    names: tuple[str, ...] = ()
    split_file: str = ""
    filter: str = ""
    replaced: bool = False
    group: str = ""


class _Journal(msgspec.Struct, frozen=True, kw_only=True):
    format_version: int
    exclusions: tuple[Exclusion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusionFiles:
    """The names of a dataset's files about exclusions.

    Attributes:
        file: Name of the single file; None for a prepared folder.
    """

    storage: Storage
    file: str | None

    @classmethod
    def of(cls, folder: Dataset) -> ExclusionFiles:
        return cls(storage=folder.storage, file=folder.file if isinstance(folder, SingleFile) else None)

    @property
    def journal(self) -> str:
        """The journal; a filter's file cannot have its name."""
        return EXCLUDE_JSON if self.file is None else f"{self.file}.exclude"

    @property
    def lock(self) -> str:
        return LOCK if self.file is None else f".{self.file}.lock"

    def of_filter(self, name: str) -> FilterFiles:
        if self.file is None:
            return FilterFiles.of_dataset(self.storage, name)
        return FilterFiles.of_file(self.storage, self.file, name)

    def filter_names(self) -> list[str]:
        """List the filters; of a single file, and on a web server, those that the journal names or a disk shows."""
        names = {entry.filter for entry in self.read_journal()}
        if self.file is None:
            names |= {*filter_names(self.storage)}
        elif isinstance(self.storage, LocalStorage):
            # Filters of a single file are next to it: `<file>.<name>.json`.
            files = os.scandir(self.storage.path("") or ".")
            start, end = f"{self.file}.", ".json"
            names |= {file.name[len(start) : -len(end)] for file in files if file.name.startswith(start)}
        return sorted(name for name in names if is_filter_name(name) and self.of_filter(name).exist())

    def read_journal(self) -> tuple[Exclusion, ...]:
        if not self.storage.exists(self.journal):
            return ()
        try:
            # The standard library reads names that are not UTF-8, unlike msgspec.
            journal = msgspec.convert(json.loads(read_document(self.storage, self.journal)), _Journal)
            shown = f"format_version {journal.format_version}"
            if journal.format_version == _FORMAT_VERSION:
                return journal.exclusions
        except (ValueError, RecursionError, msgspec.ValidationError) as error:
            shown = str(error)
        raise FormatError(
            f"expected the journal of energon exclude, format_version {_FORMAT_VERSION}; {shown}",
            shard=self.storage.path(self.journal),
            hint="remove this file; the samples stay excluded",
        )


def encode_journal(exclusions: Sequence[Exclusion]) -> bytes:
    """Encode the exclusions of a dataset."""
    journal = _Journal(format_version=_FORMAT_VERSION, exclusions=tuple(exclusions))
    return json.dumps(msgspec.to_builtins(journal), indent=1).encode("ascii")


_MAX_NAMES = 100_000  # in a split file, which is parsed whenever the dataset is opened


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusionPlan:
    """An exclusion that has not been carried out.

    Attributes:
        numbers: Numbers of the samples that it excludes, ascending, without those that were excluded before.
        remaining: Number of the samples that are not excluded afterwards.
        filter: Name of the filter to change; None for the split file.
    """

    numbers: IntArray
    already: int
    remaining: int
    filter: str | None


def plan_exclusion(folder: Dataset, samples: IntArray, *, filter_name: str | None = None) -> ExclusionPlan:
    """Return what an exclusion would change, in the filter of a name or in the split file."""
    # A split file is needed, unless a filter is to change.
    samples = np.unique(samples)
    if filter_name is None and isinstance(folder, SingleFile):
        raise ConfigError(
            "a single file has no split file to exclude samples in",
            at=folder.path,
            hint="exclude them by a filter: energon exclude --to-filter NAME, and `filter: NAME` in the metadataset",
        )
    if filter_name is None and folder.documents.split_file is None:
        raise ConfigError(
            "there is no split file to exclude samples in",
            at=folder.path,
            hint=f"{split_hint(folder.path)}; or exclude by a filter: energon exclude --to-filter NAME",
        )
    # Count what was excluded before, and what remains.
    before = included_samples(folder, filter_name)
    numbers = np.intersect1d(samples, before, assume_unique=True)
    plan = ExclusionPlan(
        numbers=numbers,
        already=len(samples) - len(numbers),
        remaining=len(before) - len(numbers),
        filter=filter_name,
    )
    # Refuse a dataset without samples, and a split file that would be slow to parse.
    if len(numbers) and not plan.remaining:
        raise ConfigError(
            "no sample of the dataset would remain", at=folder.path, hint="check the condition or the list of keys"
        )
    if filter_name is None and len(numbers) > _MAX_NAMES:
        raise ConfigError(
            f"expected at most {_MAX_NAMES:,} samples to exclude in a split file, found {len(numbers):,}",
            at=folder.path,
            hint="exclude them by a filter: energon exclude --to-filter NAME, and `filter: NAME` in the metadataset",
        )
    return plan


def included_samples(folder: Dataset, filter_name: str | None = None) -> IntArray:
    """Return the numbers of the samples that are not excluded, ascending.

    Args:
        filter_name: Name of a filter, which keeps all if there is none of this name; None for the split file.
    """
    if filter_name is None:
        return np.setdiff1d(np.arange(len(folder.index)), excluded_samples(folder), assume_unique=True)
    if not ExclusionFiles.of(folder).of_filter(filter_name).exist():
        return np.arange(len(folder.index))
    rows = open_filter(folder, filter_name)
    return rows.numbers(np.arange(len(rows)))


def exclude_samples(
    folder: Dataset, plan: ExclusionPlan, *, reason: str, shards: Sequence[str] = (), group: str = ""
) -> None:
    """Carry out an exclusion, with an entry in the journal if samples are excluded.

    Args:
        folder: The dataset; open it again to see the change.
    """
    if not len(plan.numbers):
        return
    # List the samples in the split file; shards that are excluded whole by their names.
    if plan.filter is None:
        whole = frozenset(shards)
        single = (sample for sample in plan.numbers.tolist() if folder.index.shard_of(sample).name not in whole)
        names = [*shards, *map(folder.index.full_key, single)]
        exclude_names(folder, names, reason=reason, samples=len(plan.numbers), group=group)
        return
    # Or write the filter without them.
    storage, name, paths = folder.storage, plan.filter, ExclusionFiles.of(folder)
    with storage.lock(paths.lock):
        kept = np.setdiff1d(included_samples(folder, name), plan.numbers, assume_unique=True)
        files = paths.of_filter(name)
        replaced = files.exist()
        entry = Exclusion(
            at=_now(), reason=reason, samples=len(plan.numbers), filter=name, replaced=replaced, group=group
        )
        # The undo restores the filter from a copy.
        if replaced:
            _copy_filter(files, "", ".bak")
        # A kill after this leaves an entry too many, whose undo changes nothing.
        _write(storage, paths.journal, encode_journal([*paths.read_journal(), entry]))
        build_filter_index(folder.path, name, kept, meta_folder=folder.ref.meta_folder)


def exclude_names(
    folder: Dataset, names: Sequence[str], *, reason: str, samples: int | None = None, group: str = ""
) -> Exclusion | None:
    """Add samples or shards to ``exclude`` in a dataset's split file, after copying it to ``….bak``.

    Args:
        folder: The dataset; its ``split_file`` is changed, and stays YAML or JSON.
        samples: Number of samples that they exclude; None for the number of new names.
        group: As in :func:`exclude_samples`.

    Returns:
        The entry of the journal; None if all names were there.
    """
    storage, paths = folder.storage, ExclusionFiles.of(folder)
    with storage.lock(paths.lock):
        file = f"{FOLDER}/{folder.documents.split_file}"
        config, before, version = _read(storage, file)
        # Find the names that are new.
        known = set(config.exclude)
        added = tuple(name for name in dict.fromkeys(names) if name not in known)
        if not added:
            return None
        entry = Exclusion(
            at=_now(),
            reason=reason,
            samples=len(added) if samples is None else samples,
            names=added,
            split_file=folder.documents.split_file or "",
            group=group,
        )
        # Write the copy, the entry of the journal, and last the split file.
        _write(storage, f"{file}.bak", before)
        _write(storage, paths.journal, encode_journal([*paths.read_journal(), entry]))
        config = replace(config, exclude=(*config.exclude, *added))
        _write(storage, file, format_split_config(config, file=file).encode("utf-8"), version)
    return entry


def undo_exclusion(folder: Dataset) -> Exclusion | None:
    """Undo the last exclusion of the journal and return it; None if the journal is empty.

    Entries that others have removed from the split file meanwhile stay removed.

    Args:
        folder: The dataset; open it again to see the change.
    """
    storage, paths = folder.storage, ExclusionFiles.of(folder)
    with storage.lock(paths.lock):
        journal = paths.read_journal()
        if not journal:
            return None
        # Restore the filter, or remove the names from the split file.
        last = journal[-1]
        if last.filter:
            _undo_filter(paths.of_filter(last.filter), last)
        else:
            file = f"{FOLDER}/{last.split_file}"
            config, _, version = _read(storage, file)
            removed = frozenset(last.names)
            config = replace(config, exclude=tuple(name for name in config.exclude if name not in removed))
            _write(storage, file, format_split_config(config, file=file).encode("utf-8"), version)
        # Remove the entry, and then the copies: an undo that is killed before can run again.
        if len(journal) > 1:
            _write(storage, paths.journal, encode_journal(journal[:-1]))
        else:
            storage.remove(paths.journal)
        if last.filter:
            _remove_filter(paths.of_filter(last.filter), ".bak")
    return last


def _undo_filter(files: FilterFiles, last: Exclusion) -> None:
    has_backup = files.storage.exists(f"{files.prefix}.json.bak")
    if last.replaced and not has_backup:
        raise ConfigError(
            f"the earlier filter {last.filter!r} was not kept: only the last change of a filter can be undone",
            at=files.storage.path(f"{files.prefix}.json"),
            hint="build the filter again, or remove its files",
        )
    if last.replaced:
        _copy_filter(files, ".bak", "")
    else:
        _remove_filter(files)


def _remove_filter(files: FilterFiles, ending: str = "") -> None:
    for extension in (".json", ".idx"):  # the first one makes the filter valid
        if files.storage.exists(f"{files.prefix}{extension}{ending}"):
            files.storage.remove(f"{files.prefix}{extension}{ending}")


def _copy_filter(files: FilterFiles, old: str, new: str) -> None:
    for extension in (".idx", ".json"):
        data = files.storage.read(f"{files.prefix}{extension}{old}")
        _write(files.storage, f"{files.prefix}{extension}{new}", data)


def _read(storage: Storage, file: str) -> tuple[SplitConfig, bytes, str]:
    if not storage.exists(file):
        raise ConfigError("there is no such split file", file=storage.path(file), hint=split_hint(storage.path("")))
    if isinstance(storage, RemoteStorage):
        storage.note_written(file)  # it may have changed since it was listed
    version = storage.stat(file).etag
    data = storage.read(file)
    return parse_split_config(data.decode("utf-8", "replace"), file=storage.path(file)), data, version


def _write(storage: Storage, file: str, data: bytes, version: str = "") -> None:
    """Write a file; in an object store, only over this version if it is known."""
    if isinstance(storage, RemoteStorage) and version:
        storage.put(file, data, if_etag=version)
        return
    storage.write(file, data)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
