"""Turn a folder of shards into a dataset: search, split, scan, index, commit."""

from __future__ import annotations

import time
import uuid
from bisect import bisect_right
from contextlib import closing
from dataclasses import replace

from ..errors import ConfigError, FormatError
from ..storage import Storage, open_storage
from ..version import __version__
from .commit import STAGING, commit, finish_interrupted_commit, is_commit_pending
from .compat_files import STAGED_SQLITE, CompatFiles, first_unwritable_folder, stale_compat_files, why_inexpressible
from .fix_duplicates import fix_duplicates
from .index_in_force import index_folders, read_uuid
from .index_layout import Layout, ShardEntry, layout_warnings
from .index_writer import DuplicateKeys, IndexWriter
from .journal import Journal
from .media_work import MediaReport
from .nv_meta import FOLDER, INDEX_FOLDER, INDEX_SQLITE, INDEX_UUID, INFO_JSON, LOCK, SPLIT_YAML, WORK_FOLDER
from .prepare_plan import PreparePlan, PrepareProgress, PrepareReport, ProgressCallback
from .prepare_split import PlannedSplit, plan_split, rename_excluded
from .previous_index import PreviousIndex
from .shard_index import ShardIndex, index_shard
from .shard_info import encode_shard_info
from .shard_media import ShardMedia
from .shard_scans import ShardScans
from .shard_search import ShardSearch, find_shards, left_out_warning
from .tar_idx import has_tar_idx

__all__ = ["run_prepare"]


def run_prepare(plan: PreparePlan, *, on_progress: ProgressCallback | None = None) -> PrepareReport:
    """Prepare a dataset.

    Everything appears in ``.nv-meta`` at once, or nothing does. A run that was interrupted, even killed, goes on where
    it was; shards that have not changed since the last prepare are not scanned again.

    Args:
        plan: What to do.
        on_progress: Called after each shard.

    Raises:
        FormatError: Shards are truncated or damaged; all of them are named.
        ConfigError: The split or an argument cannot be right.
        StorageError: No shards, no permission, a full disk, or another prepare at work.
    """
    if plan.media is not None and plan.compat is False:
        raise ConfigError("media metadata goes into index.sqlite, which compat=False leaves out")
    storage = open_storage(plan.path)
    search = find_shards(storage, exclude=plan.exclude)
    split = plan_split(storage, plan.split, [shard.name for shard in search.shards])
    with storage.lock(LOCK):
        if finish_interrupted_commit(storage):
            split = plan_split(storage, plan.split, [shard.name for shard in search.shards])
        storage.remove(STAGING)
        try:
            return _Prepare(storage, plan, search, split, on_progress).run()
        finally:
            # The journal stays, and so do the files of a commit that was interrupted: the next prepare finishes it.
            if not is_commit_pending(storage):
                storage.remove(STAGING)


class _Prepare:
    """One run: what is known, what is to be scanned, what will be written."""

    def __init__(
        self,
        storage: Storage,
        plan: PreparePlan,
        search: ShardSearch,
        split: PlannedSplit,
        on_progress: ProgressCallback | None,
    ) -> None:
        self._started = time.perf_counter()
        self._storage = storage
        self._plan = plan
        self._search = search
        self._shards = search.shards
        self._split = split
        self._on_progress = on_progress
        self._journal = Journal(storage)
        self._previous = PreviousIndex(storage)
        self._media = ShardMedia(storage, plan.media)
        self._files = {f"{FOLDER}/{name}": text.encode() for name, text in plan.files.items()}
        if split.text is not None:
            self._files[f"{FOLDER}/{SPLIT_YAML}"] = split.text.encode()
        self._kept: dict[int, ShardEntry] = {} if plan.force else self._unchanged_shards()
        self._done = 0
        self._samples_done = 0

    def run(self) -> PrepareReport:
        if self._previous.index and self._is_up_to_date():
            self._storage.remove(WORK_FOLDER)  # scans of a run that was interrupted, and is not needed any more
            return self._report(self._previous.index.layout, self._previous.index.uuid, changed=False)
        to_scan = [
            shard
            for number, shard in enumerate(self._shards)
            if number not in self._kept and (self._plan.force or not self._journal.has(shard))
        ]
        scanned = len(to_scan)
        resumed = len(self._shards) - len(self._kept) - scanned
        self._advance(0, shards=len(self._shards) - scanned)
        scans = ShardScans(self._storage, to_scan, self._plan.workers, self._advance)
        with closing(scans):
            compat = self._open_compat()
            writer = IndexWriter(self._storage, f"{STAGING}/index", kept=self._previous.rows, durable=False)
            try:
                with writer:
                    self._write(scans, writer, compat)
                layout, duplicates = writer.finish(prepared_by=f"energon-toolkit {__version__}")
                self._storage.flush([f"{STAGING}/index"])  # while index.sqlite is being written
                if not layout.samples:
                    raise FormatError(
                        "the shards hold no samples; expected members named key.part",
                        shard=self._storage.path(""),
                        do="look at a shard with: tar tf SHARD | head",
                    )
                fixes = self._plan.fix_duplicates and duplicates.samples > 0
                renames = compat.finish(duplicates, self._load) if compat and not fixes else []
            finally:
                if compat:
                    compat.close()
        if fixes:
            return self._fix(duplicates, layout)
        media = self._collect_media(layout) if renames else None
        identity = str(uuid.uuid4())
        self._commit(identity, layout, renames)
        warning = compat.reason if compat else None
        report = self._report(layout, identity, changed=True, scanned=scanned, resumed=resumed, compat_warning=warning)
        return replace(report, media=media, warnings=(*report.warnings, *media.warnings)) if media else report

    # ------------------------------------------------------------------------------------------- what is known

    def _unchanged_shards(self) -> dict[int, ShardEntry]:
        """Find the shards that need no scan, by number."""
        kept = {}
        for number, shard in enumerate(self._shards):
            entry = self._previous.entry(shard)
            if entry and (self._plan.compat is False or entry.scattered or self._previous.has_offsets(entry)):
                kept[number] = entry
        return kept

    def _is_up_to_date(self) -> bool:
        index = self._previous.index
        if index is None or self._plan.force or read_uuid(self._storage) != index.uuid:
            return False
        if index.shards != tuple(self._previous.entry(shard) for shard in self._shards):
            return False
        if self._plan.fix_duplicates and index.layout.duplicate_keys:
            return False
        if not self._media.is_up_to_date:
            return False
        if any(
            not self._storage.exists(name) or self._storage.read(name) != data for name, data in self._files.items()
        ):
            return False
        if self._plan.compat is False:
            return True
        if self._storage.exists(INDEX_SQLITE):
            return len(self._compat_kept()) == len(self._shards)
        return self._plan.compat is None and why_inexpressible(self._storage, index) is not None

    def _compat_kept(self) -> frozenset[int]:
        """Find the kept shards whose compat files are there, under the same number."""
        return frozenset(
            number
            for number, entry in self._kept.items()
            if self._previous.number(entry.name) == number and has_tar_idx(self._storage, entry.name, entry.samples)
        )

    # --------------------------------------------------------------------------------------------- what is done

    def _open_compat(self) -> CompatFiles | None:
        if self._plan.compat is False:
            return None
        unchanged = self._compat_kept() if self._storage.exists(INDEX_SQLITE) else frozenset()
        earlier = len(self._previous.index.shards) if self._previous.index else 0
        compat = CompatFiles(
            self._storage,
            required_by="--compat" if self._plan.compat else self._plan.media.flag if self._plan.media else None,
            shards=self._shards,
            # Replacing most rows of a large file costs more than writing it anew.
            unchanged=unchanged if 2 * len(unchanged) > len(self._shards) else None,
            gone=max(0, earlier - len(self._shards)),
        )
        folder = first_unwritable_folder(
            self._storage, [shard.name for number, shard in enumerate(self._shards) if compat.needs(number)]
        )
        if folder is not None:
            compat.give_up(f"no permission to write .tar.idx files in {self._storage.path(folder)}")
        return compat

    def _write(self, scans: ShardScans, writer: IndexWriter, compat: CompatFiles | None) -> None:
        for number, shard in enumerate(self._shards):
            index = None
            if number in self._kept:
                writer.keep(self._kept[number])
            else:
                scans.wait_for(shard)
                scans.raise_errors()
                index = self._load(number)
                writer.add(shard, index)
            if compat and compat.needs(number):
                compat.add(number, self._load(number) if index is None else index)

    def _load(self, number: int) -> ShardIndex:
        if number in self._kept:
            return self._previous.load(self._kept[number])
        index = self._journal.load(self._shards[number])
        if index is None:  # a journal damaged by a power cut
            index = index_shard(self._storage, self._shards[number].name)
        return index

    def _collect_media(self, layout: Layout) -> MediaReport | None:
        def advance(samples: int, total: int) -> None:
            if self._on_progress:
                shards = len(self._shards)
                self._on_progress(
                    PrepareProgress(
                        phase="media", shards_done=shards, shards_total=shards, samples=samples, samples_total=total
                    )
                )

        return self._media.collect(
            STAGED_SQLITE,
            self._shards,
            samples=[shard.samples for shard in layout.shards],
            kept=self._kept,
            previous=self._previous,
            workers=self._plan.workers,
            on_progress=advance,
        )

    def _commit(self, identity: str, layout: Layout, compat_renames: list[tuple[str, str]]) -> None:
        renames = [(f"{STAGING}/index", f"{INDEX_FOLDER}/{identity}"), *compat_renames]
        files = {
            **self._files,
            INDEX_UUID: identity.encode(),
            INFO_JSON: encode_shard_info({shard.name: shard.samples for shard in layout.shards}),
        }
        for number, (name, data) in enumerate(files.items()):
            staged = f"{STAGING}/files/{number}"
            with self._storage.create(staged) as file:
                file.write(data)
            renames.append((staged, name))
        earlier = self._previous.index.uuid if self._previous.index else None
        removals = [f"{INDEX_FOLDER}/{folder}" for folder in index_folders(self._storage) if folder != earlier]
        stale = stale_compat_files(
            self._storage,
            earlier=self._previous.index.shards if self._previous.index else (),
            now=[(shard.name, number in self._kept) for number, shard in enumerate(self._shards)],
            rewritten=bool(compat_renames),
        )
        commit(self._storage, renames=renames, removals=[*removals, *stale])

    def _fix(self, duplicates: DuplicateKeys, layout: Layout) -> PrepareReport:
        """Rename the keys that repeat an earlier sample's, then prepare what has become of the shards."""
        wanted: dict[str, set[str]] = {}
        starts = [shard.first_sample for shard in layout.shards]
        for key, samples in duplicates.groups:
            for sample in samples[1:].tolist():
                shard = layout.shards[bisect_right(starts, sample) - 1].name
                wanted.setdefault(shard, set()).add(key)
        renamed = fix_duplicates(self._storage, [shard.name for shard in self._shards], wanted).renamed
        split = rename_excluded(self._storage, self._split, renamed)
        self._storage.remove(STAGING)
        search = find_shards(self._storage, exclude=self._plan.exclude)
        return _Prepare(self._storage, self._plan, search, split, self._on_progress).run()

    # ------------------------------------------------------------------------------------------- what is reported

    def _advance(self, samples: int, shards: int = 1) -> None:
        self._done += shards
        self._samples_done += samples
        if self._on_progress:
            self._on_progress(
                PrepareProgress(
                    phase="scan", shards_done=self._done, shards_total=len(self._shards), samples=self._samples_done
                )
            )

    def _report(
        self,
        layout: Layout,
        identity: str,
        *,
        changed: bool,
        scanned: int = 0,
        resumed: int = 0,
        compat_warning: str | None = None,
    ) -> PrepareReport:
        counts = {shard.name: shard.samples for shard in layout.shards}
        warnings = list(self._split.warnings)
        if self._search.compressed:
            warnings.append(left_out_warning(self._storage.path(""), self._search.compressed))
        warnings += layout_warnings(layout)
        if compat_warning:
            warnings.append(f"no index.sqlite and .tar.idx files, which other tools need: {compat_warning}")
        return PrepareReport(
            changed=changed,
            uuid=identity,
            samples=layout.samples,
            parts=layout.parts,
            shards=len(layout.shards),
            size_bytes=sum(shard.size_bytes for shard in layout.shards),
            scanned=scanned,
            resumed=resumed,
            reused=len(self._shards) - scanned - resumed,
            duplicate_keys=layout.duplicate_keys,
            compat=self._storage.exists(INDEX_SQLITE),
            split={
                part: (len(shards), sum(counts.get(shard, 0) for shard in shards))
                for part, shards in self._split.parts.items()
            },
            warnings=tuple(warnings),
            seconds=time.perf_counter() - self._started,
        )
