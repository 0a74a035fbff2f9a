"""The files of a tree that a source of tables or shards does not read."""

from __future__ import annotations

from collections.abc import Collection

from ...accounting import Account
from .file_names import join_names, sort_files
from .tree import FileTree

__all__ = ["leave_others"]


def leave_others(tree: FileTree, used: Collection[str], account: Account) -> None:
    """Count all files of a tree, those that are not used as left out.

    Args:
        tree: The tree.
        used: Names of the files that are used.
        account: Counts the files.
    """
    for folder, names in tree.folders(account):
        files = sort_files(names)
        data = {*files.tables, *files.archives}
        for name in names:
            full = join_names(folder, name)
            if full in used:
                account.use(tree.unit)
            else:
                tree.leave(account, full, "L103" if name in data else "L102")
