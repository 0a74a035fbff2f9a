"""What the rows of a join depend on: where none of it has changed, rows that are prepared are still true."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from ...format.dataset_folder import DatasetFolder
from ...format.nv_meta import SPLIT_YAML
from ...format.tar.names import printable
from ..documents.leaf_plan import JoinMember

__all__ = ["MemberIdentity", "identify_member", "join_hash", "open_member"]

_VERSION = 1
"""Of the way in which rows are made and written; another one makes what is there out of date."""


class MemberIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What the rows depend on of one dataset.

    Attributes:
        path: Where it is; for messages only, since a dataset that has moved is the same.
        uuid: Which of its indexes the rows' numbers count in.
        split_part: Which part of its split.
        split_config: Which split file.
        shards: A hash of the shards of that part, in their order.
        exclude: A hash of what the split file leaves out of that part, sorted.
        nonmatch: What happens where it lacks a key.
    """

    path: str
    uuid: str
    split_part: str
    split_config: str
    shards: str
    exclude: str
    nonmatch: str


def open_member(member: JoinMember) -> DatasetFolder:
    """Open a dataset of a join.

    Raises:
        StorageError: It is missing, or not prepared.
    """
    return DatasetFolder(member.path, split_config=member.split_config or SPLIT_YAML)


def identify_member(member: JoinMember, folder: DatasetFolder) -> MemberIdentity:
    """Look up what the rows depend on of one dataset, as it is now; no sample is looked at.

    Raises:
        ConfigError: Its split file says something wrong, or there is none.
    """
    split = folder.split
    if split is None or member.split_part not in split.split_parts:
        folder.samples_of_part(member.split_part)  # raises, and names those that are there
    shards = split.split_parts.get(member.split_part, ()) if split else ()
    whole, keys = (split.excluded_shards(), split.excluded_samples()) if split else (frozenset[str](), {})
    left_out = [[shard] if shard in whole else [shard, *sorted(keys.get(shard, ()))] for shard in sorted(shards)]
    return MemberIdentity(
        path=printable(member.path),
        uuid=folder.index.uuid,
        split_part=member.split_part,
        split_config=member.split_config or SPLIT_YAML,
        shards=_hash(shards),
        exclude=_hash([[shard in whole, *names] for shard, *names in left_out if shard in whole or names]),
        nonmatch=member.nonmatch,
    )


def join_hash(members: Sequence[MemberIdentity]) -> str:
    """Give the name of the files that hold the rows of a join: 32 letters, other ones for anything else."""
    return _hash([_VERSION, [[getattr(one, name) for name in _COUNTED] for one in members]])


_COUNTED = tuple(name for name in MemberIdentity.__struct_fields__ if name != "path")


def _hash(value: object) -> str:
    # Names that are no UTF-8 hold lone surrogates, which JSON has no bytes for.
    return hashlib.sha256(repr(value).encode("utf-8", "surrogateescape")).hexdigest()[:32]
