"""``index.sqlite`` and the ``.tar.idx`` files: the index as other readers of the format know it.

They cannot express every dataset: a key that two shards share, parts of a sample that are not neighbours, names that
are not UTF-8. By default they are then left out with a warning; where the user asked for them, that is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..errors import FormatError
from ..storage import FileInfo, Storage
from .commit import STAGING
from .dataset_index import DatasetIndex
from .index_layout import ShardEntry
from .index_writer import DuplicateKeys
from .nv_meta import INDEX_SQLITE, TAR_IDX_SUFFIX
from .shard_index import ShardIndex
from .sqlite_index import NotPatchable, SqliteIndexWriter, are_names_utf8, cannot_express
from .tar_idx import tar_idx_bytes

__all__ = ["STAGED_SQLITE", "CompatFiles", "first_unwritable_folder", "stale_compat_files", "why_inexpressible"]

STAGED_SQLITE = f"{STAGING}/index.sqlite"
"""Where the new file waits for the commit."""


class CompatFiles:
    """Collects the compat files of a prepare, shard by shard.

    Args:
        storage: The dataset.
        required_by: The user's flag that needs the files, so that it is an error where they cannot express the
            dataset; None leaves them out then.
        shards: All shards in order.
        unchanged: Shards (by their number) whose rows in the ``index.sqlite`` that is there are still right; None
            where there is no such file to start from, or too little of it is right.
        gone: How many shards it holds behind those in ``shards``.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        required_by: str | None,
        shards: Sequence[FileInfo],
        unchanged: frozenset[int] | None,
        gone: int,
    ) -> None:
        self._storage = storage
        self._required_by = required_by
        self._shards = shards
        self._unchanged = unchanged or frozenset()
        self.reason: str | None = None  # why there will be no files
        self._is_damaged = False  # the file that there is
        self._renames: list[tuple[str, str]] = []
        self._sqlite = self._open(unchanged, gone)

    def _open(self, unchanged: frozenset[int] | None, gone: int) -> SqliteIndexWriter:
        path = self._storage.local_path(STAGED_SQLITE)
        if unchanged is not None:
            replaced = [*set(range(len(self._shards))) - unchanged, *range(len(self._shards), len(self._shards) + gone)]
            try:
                return SqliteIndexWriter(path, earlier=self._storage.local_path(INDEX_SQLITE), replaced=replaced)
            except NotPatchable:
                self._unchanged = frozenset()
        return SqliteIndexWriter(path)

    def needs(self, number: int) -> bool:
        """Tell whether :meth:`add` must be called for a shard."""
        return self.reason is None and number not in self._unchanged

    def add(self, number: int, index: ShardIndex) -> None:
        """Take one shard; in any order."""
        shard = self._shards[number]
        reason = cannot_express(index)
        if reason:
            self.give_up(f"{shard.name}: {reason}")
            return
        if not self._is_damaged:
            try:
                self._sqlite.add(number, index)
            except NotPatchable:
                self._is_damaged = True
        staged = f"{STAGING}/tar_idx/{number}"
        with self._storage.create(staged, durable=False) as file:
            file.write(tar_idx_bytes(index.sample_offsets))
        self._renames.append((staged, shard.name + TAR_IDX_SUFFIX))

    def give_up(self, reason: str, *, do: str | None = None) -> None:
        """Leave the files out, or fail where they are required; ``do`` says what would help."""
        self._sqlite.close()
        if self._required_by:
            raise FormatError(
                f"index.sqlite and .tar.idx cannot express this dataset: {reason}",
                shard=self._storage.path(""),
                do=do or f"leave {self._required_by} out: this loader reads samples without them",
            )
        self.reason = self.reason or reason
        self._renames.clear()

    def finish(self, duplicates: DuplicateKeys, load: Callable[[int], ShardIndex]) -> list[tuple[str, str]]:
        """Close the files; give the renames that put them in place.

        Args:
            duplicates: Keys of several shards.
            load: Gives any shard again, by its number.
        """
        if self.reason is None and duplicates.samples:
            self.give_up(
                f"key {duplicates.first_key!r} occurs in two shards",
                do=f"rename such keys with --fix-duplicates, or leave {self._required_by} out",
            )
        if self.reason is None and not self._finish_sqlite(load):
            self.give_up(
                "the index.sqlite that is there holds other keys than it should",
                do="write it anew: energon prepare --force-overwrite",
            )
        return [] if self.reason is not None else [*self._renames, (STAGED_SQLITE, INDEX_SQLITE)]

    def _finish_sqlite(self, load: Callable[[int], ShardIndex]) -> bool:
        if not self._is_damaged:
            try:
                return self._sqlite.finish()
            except NotPatchable:
                pass
        self._sqlite.close()
        self._storage.remove(STAGED_SQLITE)
        self._sqlite = SqliteIndexWriter(self._storage.local_path(STAGED_SQLITE))
        for number in range(len(self._shards)):
            self._sqlite.add(number, load(number))
        return self._sqlite.finish()

    def close(self) -> None:
        """Let go of the files when the prepare fails."""
        self._sqlite.close()


def why_inexpressible(storage: Storage, index: DatasetIndex) -> str | None:
    """Say why an indexed dataset can have no compat files, or None where it can."""
    if index.layout.duplicate_keys:
        return "keys occur in two shards"
    if any(shard.scattered for shard in index.shards):
        return "the parts of some samples are not neighbours in their shard"
    if any(shard.misread for shard in index.shards):
        return "there are hidden files in folders"
    if not are_names_utf8(index.key_bytes, index.key_ends, index.part_names):
        return "there are member names that are not UTF-8"
    if first_unwritable_folder(storage, [shard.name for shard in index.shards]) is not None:
        return "no permission to write .tar.idx files"
    return None


def first_unwritable_folder(storage: Storage, shards: Iterable[str]) -> str | None:
    """Give the first of the shards' folders that takes no new files."""
    folders = {shard.rpartition("/")[0] for shard in shards}
    return next((folder for folder in sorted(folders) if not storage.is_writable(folder)), None)


def stale_compat_files(
    storage: Storage, *, earlier: Sequence[ShardEntry], now: Sequence[tuple[str, bool]], rewritten: bool
) -> list[str]:
    """List the compat files that no longer tell the truth about a dataset.

    Args:
        storage: The dataset.
        earlier: The shards as last indexed.
        now: The shards' names, and whether each is as it was then.
        rewritten: Whether new compat files replace those of the shards that are there.
    """
    names = frozenset(name for name, _ in now)
    gone = [shard.name for shard in earlier if shard.name not in names and not storage.exists(shard.name)]
    stale = [shard + TAR_IDX_SUFFIX for shard in gone]
    if not rewritten:
        stale += [name + TAR_IDX_SUFFIX for name, unchanged in now if not unchanged]
        if now != [(shard.name, True) for shard in earlier]:
            stale.append(INDEX_SQLITE)
    return [name for name in stale if storage.exists(name) and storage.is_writable(name.rpartition("/")[0])]
