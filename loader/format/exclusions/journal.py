"""The journal of exclusions, ``.nv-meta/exclude.json``: what was excluded, when and why. Readers ignore it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from ...errors import FormatError
from ...storage import Storage, read_document
from ..nv_meta import FOLDER

__all__ = ["EXCLUDE_JSON", "Exclusion", "encode_journal", "read_journal"]

EXCLUDE_JSON = f"{FOLDER}/exclude.json"

_FORMAT_VERSION = 1


class Exclusion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One exclusion of samples.

    Attributes:
        at: Time in UTC, ``2026-11-24T10:00:00Z``.
        reason: Why, as the caller gave it.
        samples: Number of samples that it excluded.
        names: The entries that it added to a split file: ``<shard>/<key>``, or shards.
        split_file: Name in ``.nv-meta`` of that file; empty for a filter.
        filter: Name of the filter that it changed; empty for a split file.
        replaced: The filter existed before; its earlier files have ``.bak`` at the end of their names.
    """

    at: str
    reason: str
    samples: int
    names: tuple[str, ...] = ()
    split_file: str = ""
    filter: str = ""
    replaced: bool = False


class _Journal(msgspec.Struct, frozen=True, kw_only=True):
    format_version: int
    exclusions: tuple[Exclusion, ...]


def read_journal(storage: Storage) -> tuple[Exclusion, ...]:
    """Read the exclusions of a dataset, the oldest first.

    Raises:
        FormatError: The file has something else, or another version.
    """
    if not storage.exists(EXCLUDE_JSON):
        return ()
    try:
        # The standard library reads names that are not UTF-8, unlike msgspec.
        journal = msgspec.convert(json.loads(read_document(storage, EXCLUDE_JSON)), _Journal)
        found = f"format_version {journal.format_version}"
        if journal.format_version == _FORMAT_VERSION:
            return journal.exclusions
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        found = str(error)
    raise FormatError(
        f"expected the journal of energon exclude, format_version {_FORMAT_VERSION}; {found}",
        shard=storage.path(EXCLUDE_JSON),
        hint="remove this file; the samples stay excluded",
    )


def encode_journal(exclusions: Sequence[Exclusion]) -> bytes:
    """Encode the exclusions of a dataset."""
    journal = _Journal(format_version=_FORMAT_VERSION, exclusions=tuple(exclusions))
    return json.dumps(msgspec.to_builtins(journal), indent=1).encode("ascii")
