"""Write ``index.sqlite`` and the ``.tar.idx`` files, the index that other readers of the format use.

These compat files cannot express every dataset: not a key that two shards share, not a sample with parts that are not
neighbours, not names that are not UTF-8. By default they are then skipped with a warning. If the user requested them,
that is an error.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
import numpy.typing as npt

from ...errors import FormatError, plural
from ...storage import FileInfo, Storage, is_writable
from ..index.dataset_index import DatasetIndex
from ..index.journal import shard_digest
from ..index.layout import ShardEntry
from ..index.publish import STAGING
from ..index.shard_index import ShardIndex
from ..index.writer import DuplicateKeys
from ..nv_meta import INDEX_SQLITE, TAR_IDX_SUFFIX
from ..tar.header import tar_idx_bytes
from .sqlite_index import BackgroundIndexWriter, NotPatchable

STAGED_SQLITE = f"{STAGING}/index.sqlite"  # path of the new file until the commit renames it


@dataclass(eq=False)
class CompatFiles:
    """Collects the compat files of a prepare, shard by shard.

    Args:
        required_by: The user's flag that requires the files: an error is raised if they cannot express the dataset.
            None skips the files in that case.
        shards: All shards in order.
        unchanged: Numbers of the shards that have correct rows in the present ``index.sqlite``; None if a new file has
            to be written, because there is no file or too few of its rows are correct.
        gone: Number of shards in that file after those in ``shards``.
    """

    storage: Storage
    work: Storage
    _: KW_ONLY
    required_by: str | None
    shards: Sequence[FileInfo]
    unchanged: frozenset[int] | None
    gone: int
    reason: str | None = field(default=None, init=False)  # why the files are skipped
    _is_damaged: bool = field(default=False, init=False)  # True if the earlier file is damaged inside
    _renames: list[tuple[str, str]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        path = self.work.local_path(STAGED_SQLITE)
        if self.unchanged is not None:
            count, earlier = len(self.shards), self.storage.local_path(INDEX_SQLITE)
            replaced = [*set(range(count)) - self.unchanged, *range(count, count + self.gone)]
            try:
                self._sqlite = BackgroundIndexWriter(path, earlier=earlier, replaced=replaced)
            except NotPatchable:
                self.unchanged = None
        if self.unchanged is None:
            self._sqlite = BackgroundIndexWriter(path)

    def needs(self, position: int) -> bool:
        """Return True if :meth:`add` must be called for a shard."""
        return self.reason is None and position not in (self.unchanged or ())

    def add(self, position: int, index: ShardIndex, *, is_staged: bool = False) -> None:
        """Add one shard. Shards may come in any order.

        Args:
            is_staged: :func:`stage_tar_idx` has written its ``.tar.idx``.
        """
        shard = self.shards[position]
        reason = cannot_express(index)
        if reason:
            self.give_up(f"{shard.name}: {reason}")
            return
        if not self._is_damaged:
            try:
                self._sqlite.add(position, index)
            except NotPatchable:
                self._is_damaged = True
        if not is_staged:
            stage_tar_idx(self.work, shard, index)
        self._renames.append((_staged_tar_idx(shard), shard.name + TAR_IDX_SUFFIX))

    def give_up(self, reason: str, *, hint: str | None = None) -> None:
        """Skip the files, or fail if they are required.

        Args:
            hint: Advice for the error; None advises to drop the flag.
        """
        self._sqlite.close()
        if self.required_by:
            raise FormatError(
                f"index.sqlite and .tar.idx cannot express this dataset: {reason}",
                shard=self.storage.path(""),
                hint=hint or f"drop {self.required_by}: this loader reads samples without them",
            )
        self.reason = self.reason or reason
        self._renames.clear()

    def finish(self, duplicates: DuplicateKeys, read_index: Callable[[int], ShardIndex]) -> list[tuple[str, str]]:
        """Close the files, and return the renames (from, to) that put them in place.

        Returns:
            The renames; empty if the files are skipped.
        """
        if self.reason is None and duplicates.samples:
            self.give_up(
                f"key {duplicates.first_key!r} occurs in two shards",
                hint=f"rename such keys (energon prepare --fix-duplicates), or drop {self.required_by}",
            )
        if self.reason is None and not self._finish_sqlite(read_index):
            self.give_up(
                "the present index.sqlite has other keys than the shards",
                hint="rewrite it: energon prepare --force-overwrite",
            )
        return [] if self.reason is not None else [*self._renames, (STAGED_SQLITE, INDEX_SQLITE)]

    def _finish_sqlite(self, read_index: Callable[[int], ShardIndex]) -> bool:
        if not self._is_damaged:
            try:
                return self._sqlite.finish()
            except NotPatchable:
                pass  # another tool wrote the rows to be replaced: write the file again, from all shards
        self._sqlite.close()
        self.work.remove(STAGED_SQLITE)
        self._sqlite = BackgroundIndexWriter(self.work.local_path(STAGED_SQLITE))
        for position in range(len(self.shards)):
            self._sqlite.add(position, read_index(position))
        return self._sqlite.finish()

    def close(self) -> None:
        self._sqlite.close()


def _staged_tar_idx(shard: FileInfo) -> str:
    return f"{STAGING}/tar_idx/{shard_digest(shard).hex()}"


def stage_tar_idx(work: Storage, shard: FileInfo, index: ShardIndex) -> None:
    """Write the ``.tar.idx`` of a shard to the staging folder."""
    # A worker that was killed may have left the file, and its shard is scanned again.
    work.write(_staged_tar_idx(shard), tar_idx_bytes(index.sample_offsets), durable=False)


def can_have_compat_files(storage: Storage, index: DatasetIndex) -> bool:
    """Return True if compat files can express an indexed dataset, and be written."""
    if index.layout.duplicate_keys or any(shard.scattered or shard.misread for shard in index.shards):
        return False
    names = [shard.name for shard in index.shards]
    are_utf8 = _are_names_utf8(index.key_bytes, index.key_ends, index.part_names)
    return are_utf8 and first_unwritable_folder(storage, names) is None


def cannot_express(index: ShardIndex) -> str | None:
    """Return the reason why the compat files cannot express a shard, or None if they can."""
    if index.scattered:
        return f"{plural(index.scattered, 'sample has', 'samples have')} parts that are not neighbours in the shard"
    if index.misread:
        return (
            f"other tools would read {plural(index.misread, 'hidden file')} (such as .DS_Store) in folders as samples"
        )
    if not _are_names_utf8(index.key_bytes, index.key_ends, index.part_names):
        return "it has member names that are not UTF-8"
    return None


def _are_names_utf8(
    key_bytes: npt.NDArray[np.uint8], key_ends: npt.NDArray[np.integer], part_names: Iterable[str]
) -> bool:
    """Check that the joined keys and the part names are UTF-8, as text in SQLite must be."""
    data = key_bytes.tobytes()
    if data.isascii() and all(name.isascii() for name in part_names):
        return True
    if (key_bytes[key_ends[:-1]] & 0xC0 == 0x80).any():
        return False  # A key starts with a continuation byte, which is valid only after the end of the key before.
    try:
        codecs.utf_8_decode(data, "strict", True)
        for name in part_names:
            name.encode("utf-8")
    except UnicodeError:
        return False
    return True


def first_unwritable_folder(storage: Storage, shards: Iterable[str]) -> str | None:
    """Return the first folder of the shards without write permission, or None."""
    folders = {shard.rpartition("/")[0] for shard in shards}
    return next((folder for folder in sorted(folders) if not is_writable(storage, folder)), None)


def stale_compat_files(
    storage: Storage,
    *,
    earlier: Sequence[ShardEntry],
    now: Sequence[tuple[str, bool]],
    rewritten: bool,
    tar_files: Collection[str],
) -> list[str]:
    """List the compat files that no longer match a dataset.

    Args:
        now: Name of each present shard, and True if it has not changed since then.
        rewritten: True if new compat files replace the files of the present shards.
        tar_files: The visible ``.tar`` and ``.tar.idx`` files.
    """
    names = frozenset(name for name, _ in now)
    removed = [shard.name for shard in earlier if shard.name not in names and shard.name not in tar_files]
    stale = [shard + TAR_IDX_SUFFIX for shard in removed]
    if not rewritten:
        stale += [name + TAR_IDX_SUFFIX for name, unchanged in now if not unchanged]
        if now != [(shard.name, True) for shard in earlier]:
            stale.append(INDEX_SQLITE)
    present = [name for name in stale if name in tar_files or (name == INDEX_SQLITE and storage.exists(name))]
    return [name for name in present if is_writable(storage, name.rpartition("/")[0])]
