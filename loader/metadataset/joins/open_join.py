"""Open the rows of a join that ``energon prepare meta.yaml`` has written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...dataset.opening import folder_at
from ...errors import ConfigError
from ..documents.leaf_plan import JoinPlan
from .files import JoinFiles, JoinRecord, MemberIdentity, identify_member, join_hash
from .peer_index import read_peer_rows

_ROWS_AT_ONCE = 1 << 20


def open_join(plan: JoinPlan) -> npt.NDArray[np.int64]:
    """Map the rows of a join into memory, and check once that their numbers are samples of the members.

    Without rows of ``energon prepare``, those that megatron-energon has prepared are read, checked and kept in memory.

    Returns:
        Shape (rows, members), read-only: the numbers of samples in the members' indexes
        (:class:`~loader.format.index.dataset_index.DatasetIndex`); -1 where a member has none.

    Raises:
        ConfigError: The rows are not prepared, or a dataset or the join has changed since; the message names the
            change.
        StorageError: A dataset is missing, or not prepared.
    """
    files = JoinFiles(plan.file)
    folders = [folder_at(member.ref) for member in plan.members]
    members = [identify_member(member, folder) for member, folder in zip(plan.members, folders, strict=True)]
    name = join_hash(members)
    record = files.read_record(name)
    rows = files.map_rows(name, len(members)) if record is not None else None
    samples = [len(folder.index) for folder in folders]
    if record is not None and rows is not None and len(rows) == record.rows and _are_samples(rows, plan, samples):
        return rows
    of_peer = read_peer_rows(plan, folders)
    if of_peer is not None:
        return of_peer
    if record is not None:
        found = f"the prepared rows of this join are damaged: {files.path}/{name}.npy"
    else:
        found = _describe_change(members, [record for other in files.names() if (record := files.read_record(other))])
    raise ConfigError(found, file=plan.file, at=f"{plan.file}: {plan.place}", hint=f"run: energon prepare {plan.file}")


def _are_samples(rows: npt.NDArray[np.int64], plan: JoinPlan, samples: Sequence[int]) -> bool:
    """Check that all numbers are those of samples, or -1 where a member may have none."""
    lowest = np.array([-1 if member.nonmatch == "none" else 0 for member in plan.members])
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = rows[start : start + _ROWS_AT_ONCE]
        if (block.min(axis=0) < lowest).any() or (block.max(axis=0) >= samples).any():
            return False
    return True


def _describe_change(members: Sequence[MemberIdentity], records: Sequence[JoinRecord]) -> str:
    """Return a message with the differences between the join and the most similar prepared one."""
    paths = [member.path for member in members]
    same = [record.members for record in records if [member.path for member in record.members] == paths]
    if same:
        changes = min((_changes(members, then) for then in same), key=len)
        return f"the prepared rows of this join are stale: {'; '.join(changes) or 'another version prepared them'}"
    if any(member.path in paths for record in records for member in record.members):
        return "this join is not prepared; the prepared ones have other datasets, or the same in another order"
    return "this join is not prepared"


def _changes(now: Sequence[MemberIdentity], then: Sequence[MemberIdentity]) -> list[str]:
    return [change for one, other in zip(now, then, strict=True) for change in _changes_of_member(one, other)]


def _changes_of_member(now: MemberIdentity, then: MemberIdentity) -> list[str]:
    changes = []
    if now.uuid != then.uuid:
        changes.append(f"member {now.path} was prepared again")
    if now.split_part != then.split_part:
        changes.append(f"the split part of member {now.path} is {now.split_part!r} now, not {then.split_part!r}")
    elif now.split_config != then.split_config:
        changes.append(f"the split of member {now.path} is {now.split_config} now, not {then.split_config}")
    elif now.shards != then.shards:
        changes.append(f"the split of member {now.path} has changed")
    if now.exclude != then.exclude and now.split_part == then.split_part:
        changes.append(f"the exclusions in the split of member {now.path} have changed")
    if now.filter != then.filter:
        changes.append(f"the filter of member {now.path} has changed")
    if now.nonmatch != then.nonmatch:
        changes.append(f"nonmatch of member {now.path} is {now.nonmatch} now, not {then.nonmatch}")
    return changes
