"""The files in a tar as unpacking would give them: links have contents, and the last of several members counts."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import NamedTuple

from ...accounting import Account
from ...format.tar.names import decode_name
from ...format.tar.scan import TarLink, TarScan, read_members
from ...storage import open_parent

_MAX_LINKS = 40  # that are followed one after another, as in Linux


class MemberRange(NamedTuple):
    """The byte range of a member's contents in its tar."""

    offset: int
    size_bytes: int


def read_tar_members(path: str, account: Account, *, shown: str) -> dict[str, MemberRange]:
    """Return the files of a tar by name, in the order of the archive.

    Hard and symbolic links to members of the same archive have the ranges of their targets.

    Args:
        path: The tar file, not compressed.
        account: Counts the members that are not returned: those that a later member of the same name replaces, and
            links that lead elsewhere, devices and pipes.
    """
    storage, name = open_parent(path)
    ranges: dict[str, MemberRange] = {}
    with storage.open(name) as file:
        scan = TarScan(file.size_bytes, shown)
        for batch in read_members(file, scan):
            rows = zip(batch.names.tolist(), batch.content_offset.tolist(), batch.size_bytes.tolist(), strict=True)
            for encoded, offset, size_bytes in rows:
                member = _normal(decode_name(encoded))
                replaced = ranges.pop(member, None)  # the later member takes its place in the order, too
                if replaced is not None:
                    account.lose("members", "L106", f"{shown}, {member}", size_bytes=replaced.size_bytes)
                ranges[member] = MemberRange(offset, size_bytes)
    links = {_normal(decode_name(link.name)): link for link in scan.links}
    for member in links:
        target = _target(member, links, ranges)
        if target is None:
            account.lose("members", "L105", f"{shown}, {member}")
        else:
            ranges.setdefault(member, ranges[target])
    return ranges


def _target(member: str, links: Mapping[str, TarLink], ranges: Mapping[str, MemberRange]) -> str | None:
    """Return the member that has the contents of a link; None if the archive has none."""
    for _ in range(_MAX_LINKS):
        link = links.get(member)
        if link is None:
            return member if member in ranges else None
        target = decode_name(link.target)
        if not target or target.startswith("/"):
            return None
        # A hard link names a member, and a symbolic link a path from its own folder.
        member = _normal(target if link.is_hard else posixpath.join(posixpath.dirname(member), target))
        if member in ranges:
            return member
    return None


def _normal(name: str) -> str:
    """Return a name without ``./``, ``..`` and first ``/`` where possible, as two names of one file."""
    return posixpath.normpath(name).lstrip("/") if name else name
