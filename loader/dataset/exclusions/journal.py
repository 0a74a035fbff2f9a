"""The journal of exclusions, ``.nv-meta/exclude.json``: what was excluded, when and why. Readers ignore it.

That of a single file ``x.jsonl`` is ``x.jsonl.exclude`` next to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ...errors import FormatError
from ...format.filters.files import FilterFiles, filter_names
from ...format.nv_meta import FOLDER, LOCK, is_filter_name
from ...storage import LocalStorage, Storage, read_document
from ..dataset import Dataset
from ..records import SingleFile

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
            found = os.scandir(self.storage.path("") or ".")
            start, end = f"{self.file}.", ".json"
            names |= {one.name[len(start) : -len(end)] for one in found if one.name.startswith(start)}
        return sorted(name for name in names if is_filter_name(name) and self.of_filter(name).exist())

    def read_journal(self) -> tuple[Exclusion, ...]:
        if not self.storage.exists(self.journal):
            return ()
        try:
            # The standard library reads names that are not UTF-8, unlike msgspec.
            journal = msgspec.convert(json.loads(read_document(self.storage, self.journal)), _Journal)
            found = f"format_version {journal.format_version}"
            if journal.format_version == _FORMAT_VERSION:
                return journal.exclusions
        except (ValueError, RecursionError, msgspec.ValidationError) as error:
            found = str(error)
        raise FormatError(
            f"expected the journal of energon exclude, format_version {_FORMAT_VERSION}; {found}",
            shard=self.storage.path(self.journal),
            hint="remove this file; the samples stay excluded",
        )


def encode_journal(exclusions: Sequence[Exclusion]) -> bytes:
    """Encode the exclusions of a dataset."""
    journal = _Journal(format_version=_FORMAT_VERSION, exclusions=tuple(exclusions))
    return json.dumps(msgspec.to_builtins(journal), indent=1).encode("ascii")
