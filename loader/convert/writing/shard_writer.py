"""Write samples to a new dataset from a program of one's own, in one process or in many."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from functools import lru_cache, partial
from typing import Any, Literal, Self

from ...engine.journal import AlreadyDoneError
from ...errors import ConfigError, SampleError
from ...format.documents.dataset_files import is_prepared
from ...format.index.shard_index import index_shard
from ...format.unfinished import WRITING_FOLDER
from ...prepare.plan import PrepareReport
from ...storage import HubFolder, is_hub_url, open_storage
from ...storage.remote import use_storage_options
from .encoded_parts import encode_part
from .hub_output import publish
from .new_folder import check_new_folder
from .sample_parts import SampleParts, checked_key, description, split_by_hash, type_of_sample
from .seen_keys import SeenKeys
from .shard_file import PartContents, sample_bytes
from .written_shards import OpenShard, PartRecord, WrittenShards, commit_shards, part_name, written_parts

_DEFAULT_PART = "train"
_END_BYTES = 1024


class ShardWriter:
    """Writes samples to tar shards, which are a prepared dataset when the block ends without an error.

    ::

        with ShardWriter("photos", split_ratio={"train": 9, "val": 1}) as writer:
            for number, (picture, caption) in enumerate(pairs):
                writer.write({"__key__": f"{number:06d}", "jpg": picture, "txt": caption})

    After an error, nothing is left; after a kill, or an error with ``resume=True``, the shards that are finished stay.
    The same program with ``resume=True`` then continues: :meth:`write` skips the samples that they have, and
    ``key in writer`` shows which these are, so that the program need not make them again.

    Several processes write with :meth:`part`, each to its own shards. Jobs that share no process pass their number as
    ``rank``, and one calls :meth:`commit` when all have ended.

    Args:
        path: Path or URL of the dataset, a new or empty folder.
        shard_bytes: A shard ends before the sample that would exceed this size; a larger sample has its own.
        samples_per_shard: Most samples of a shard.
        split_ratio: Share of each split part. A sample's part follows from a hash of its key; None: all are ``train``.
        sample_type: Name of the samples' type, for ``dataset.yaml``; None for the type of the first typed sample, or
            for crude samples.
        field_map: Field → expression, such as ``{"image": "jpg", "caption": "json[caption]"}``; None for one by the
            kinds of the fields.
        on_repeat: ``"error"`` refuses a key that an earlier sample has; ``"rename"`` adds a number to it.
        resume: Continue a write that was interrupted, if there is one.
        rank: Number of this writer among others of the same dataset, which does not commit; None for the only one.
        compat: As for :class:`.PreparePlan`.
        storage_options: Options of the store, such as ``{"license": "cc-by-4.0"}`` for a new card on the hub.

    Raises:
        ConfigError: A setting is invalid.

    >>> with ShardWriter("texts") as writer:
    ...     keys = [writer.write({"__key__": key, "txt": f"text {key}"}) for key in ("0000", "0001")]
    >>> open_dataset("texts")["0001"]["txt"]
    'text 0001'
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        shard_bytes: int = 10**9,
        samples_per_shard: int = 10_000,
        split_ratio: Mapping[str, float] | None = None,
        sample_type: str | None = None,
        field_map: Mapping[str, str] | None = None,
        on_repeat: Literal["error", "rename"] = "error",
        resume: bool = False,
        rank: int | None = None,
        compat: bool | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        # Check the settings.
        for name, value in (("shard_bytes", shard_bytes), ("samples_per_shard", samples_per_shard)):
            if value < 1:
                raise ConfigError(f"expected a positive number as {name}, found {value}")
        if split_ratio is not None and not (min(split_ratio.values(), default=-1) >= 0 < sum(split_ratio.values())):
            raise ConfigError(f"expected shares of split parts, such as {{'train': 9, 'val': 1}}, found {split_ratio}")
        if on_repeat not in ("error", "rename"):
            raise ConfigError(f"expected 'error' or 'rename' as on_repeat, found {on_repeat!r}")
        # Keep them for writers in other processes.
        self._settings: dict[str, Any] = {
            "path": os.fspath(path),
            "shard_bytes": shard_bytes,
            "samples_per_shard": samples_per_shard,
            "split_ratio": None if split_ratio is None else dict(split_ratio),
            "sample_type": sample_type,
            "field_map": None if field_map is None else dict(field_map),
            "on_repeat": on_repeat,
            "resume": resume,
            "compat": compat,
        }
        self._rank = rank
        self._description = description(sample_type, field_map)
        self._typed: dict[str, SampleParts] = {}
        use_storage_options(path, storage_options)
        path = os.fspath(path)
        self._hub = HubFolder(path) if is_hub_url(path) else None
        if self._hub and rank is not None:
            raise ConfigError("one process writes to a repository", at=path, hint="pass on writer.part(rank)")
        self._folder = self._hub.path if self._hub else path
        self._storage = open_storage(self._folder)
        self._records = WrittenShards(self._storage, rank)
        self._open: dict[str, OpenShard] = {}
        self._seen = SeenKeys()
        self._kept = SeenKeys()
        self._keys_of = lru_cache(1)(self._read_keys)  # of a shard: keys of samples that follow one another are asked
        self._names: list[str] = []  # of the shards, by number
        self._stack: ExitStack | None = None
        self.samples = 0
        """Number of samples that this object has written."""
        self.resumed = 0
        """Number of samples that it has skipped, since an earlier run wrote them."""
        self.report: PrepareReport | None = None
        """The report of the commit, after the block."""

    def part(self, rank: int) -> ShardWriter:
        """Return a writer for another process, which pickles until it is entered; this one commits its shards, too.

        Args:
            rank: Number of the process, from 0.
        """
        return ShardWriter(**{**self._settings, "path": self._folder}, rank=rank)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._stack is not None:
            raise TypeError("a ShardWriter cannot be pickled inside its block; pickle writer.part(rank)")
        return partial(ShardWriter, **self._settings, rank=self._rank), ()

    # ------------------------------------------------------------------------------------------------ the block

    def __enter__(self) -> Self:
        """Begin to write.

        Raises:
            AlreadyDoneError: An earlier run has written everything to this repository, and did not publish it.
            ConfigError: The folder has other files, a dataset, or the shards of an interrupted write.
            StorageError: It cannot be written, or another process writes there.
        """
        with ExitStack() as stack:
            # Publish what an earlier run has written, if it ended between the last sample and its commit.
            if self._hub:
                stack.enter_context(self._hub)
                if is_prepared(self._storage):
                    publish(self._hub)
                    raise AlreadyDoneError("an earlier run has written this; it is published now", at=self._hub.url)
            self._check_output()
            stack.enter_context(self._storage.lock(self._records.lock))
            # Continue the earlier write of this writer, or begin it again.
            if self._records.exists():
                if self._settings["resume"]:
                    self._keep_finished()
                elif self._records.finished() is not None:
                    raise ConfigError(
                        f"{part_name(self._rank)} is written already",
                        at=self._storage.path(""),
                        hint="commit it, or pass resume=True",
                    )
                else:
                    self._records.discard()  # of a process that was killed, and starts again
            self._records.begin()
            self._stack = stack.pop_all()
        return self

    def _check_output(self) -> None:
        storage = self._storage
        # Writers with a rank share the folder.
        if storage.exists(WRITING_FOLDER):
            if self._rank is None and not self._settings["resume"]:
                raise ConfigError(
                    "this folder has the shards of a write that was interrupted",
                    at=storage.path(""),
                    hint="pass resume=True to continue it, or remove the folder",
                )
            return
        check_new_folder(storage, WRITING_FOLDER, hint="name a new folder", may_have_files=self._rank is not None)

    def _keep_finished(self) -> None:
        self._records.reopen()
        # Keep the shards that have not changed, with their numbers and keys.
        for shard in self._records.shards():
            if not shard.is_current(self._storage):
                continue
            shard_index = int(shard.name.removesuffix(".tar").rpartition("_")[2])
            self._names += [""] * (shard_index + 1 - len(self._names))
            self._names[shard_index] = shard.name
            for key in self._keys_of(shard.name):
                self._kept.add(key, shard_index)

    def __exit__(self, kind: object, error: BaseException | None, _trace: object) -> None:
        if self._stack is None:
            return
        stack, self._stack = self._stack, None
        with stack:
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        # End the shards of this writer; after an error, leave those that another run can continue.
        if error is None:
            try:
                for shard in [*self._open.values()]:
                    self._finish(shard)
                self._records.finish(PartRecord(description=self._description))
            except BaseException as failed:
                self._abort(failed)
                raise
        else:
            self._abort(error)
            if not self._settings["resume"]:
                self._records.discard()
        # The only writer, or the first of several, commits the shards of all.
        if self._rank is not None:
            return
        if error is None:
            settings = self._settings
            renames, compat = settings["on_repeat"] == "rename", settings["compat"]
            self.report = commit_shards(self._storage, path=self._folder, renames=renames, compat=compat)
            if self._hub:
                publish(self._hub)
        elif not self._settings["resume"]:
            for _, records in [*written_parts(self._storage)]:
                records.discard()
            self._storage.remove(WRITING_FOLDER)

    def _abort(self, error: BaseException) -> None:
        while self._open:
            self._open.popitem()[1].abort(error)

    @staticmethod
    def commit(
        path: str | os.PathLike[str],
        *,
        parts: int | None = None,
        on_repeat: Literal["error", "rename"] = "error",
        compat: bool | None = None,
    ) -> PrepareReport:
        """Prepare the shards that writers with a ``rank`` have written as a dataset.

        Args:
            path: Path or URL of the dataset.
            parts: Number of these writers, numbered from 0; None for those that have begun.
            on_repeat: ``"rename"`` renames keys that several writers have written.
            compat: As for :class:`.PreparePlan`.

        Raises:
            ConfigError: Writers are missing or did not finish; the message names them. Or two have written one key.
            StorageError: The dataset cannot be written.
        """
        return commit_shards(
            open_storage(path), path=os.fspath(path), parts=parts, renames=on_repeat == "rename", compat=compat
        )

    # ---------------------------------------------------------------------------------------------- the samples

    def __contains__(self, key: str) -> bool:
        """Return True if an earlier run has written a sample of this key, so that this one will skip it."""
        shard = self._kept.shard(key)
        return shard is not None and key in self._keys_of(self._names[shard])

    def write(self, sample: Any, *, split: str | None = None) -> str:
        """Write a sample, and return its key.

        Args:
            sample: A dict of ``__key__`` and the parts, whose values are encoded by :func:`.encode_part`; or a typed
                sample, such as ``CaptioningSample``, whose fields become parts by the field map.
            split: Its split part; None for the ratio, or ``train``.

        Raises:
            ConfigError: An earlier sample has this key.
            SampleError: The key or a value cannot be written. Nothing of this sample is.
            StorageError: The shard cannot be written.
        """
        if self._stack is None:
            raise ConfigError("samples are written inside the block of the writer: with ShardWriter(…) as writer")
        # Find the key and the part, and skip what an earlier run has written.
        key, values = self._values(sample)
        key = self._unique(key)
        part = split or split_by_hash(key, self._settings["split_ratio"]) or _DEFAULT_PART
        if key in self:
            self._seen.add(key, self._kept.shard(key) or 0)
            self.resumed += 1
            return key
        # Encode all parts first: a value that fails leaves nothing of the sample.
        parts = {name: encode_part(name, value, key=key) for name, value in values.items()}
        shard = self._shard_for(part, key, parts)
        shard.write(key, parts)
        self._seen.add(key, shard.number)
        self.samples += 1
        return key

    def _values(self, sample: Any) -> tuple[str, dict[str, Any]]:
        if isinstance(sample, Mapping):
            key = sample.get("__key__")
            values = {name: value for name, value in sample.items() if not name.startswith("__")}
        else:
            # A typed sample becomes parts by the field map of its type.
            kind = self._settings["sample_type"] or type_of_sample(sample)
            if kind is None:
                raise SampleError(f"expected a dict or a typed sample, found {type(sample).__name__}")
            if kind not in self._typed:
                self._typed[kind] = SampleParts(kind, self._settings["field_map"])
                self._description = self._description or self._typed[kind].description()
            key = str(getattr(sample, "__key__", "")).replace(".tar/", "/")  # of the shard that it was read from
            values = self._typed[kind].parts(sample, key=key)
        return checked_key(key, values), values

    def _unique(self, key: str) -> str:
        shard = self._seen.shard(key)
        if shard is None or not self._has(shard, key):
            return key
        if self._settings["on_repeat"] == "error":
            raise ConfigError(
                f"two samples have the key {key!r}",
                at=f"{self._storage.path(self._names[shard])}, written before; and this one",
                hint="make keys unique, or pass on_repeat='rename'",
            )
        # Add a number that is free.
        count = 2
        while self._seen.shard(f"{key}-{count}") is not None:
            count += 1
        return f"{key}-{count}"

    def _has(self, shard: int, key: str) -> bool:
        """Return True if a shard has a key, and not only one of the same hash; of an open shard it is assumed."""
        name = self._names[shard]
        return any(open_shard.number == shard for open_shard in self._open.values()) or key in self._keys_of(name)

    def _read_keys(self, name: str) -> frozenset[str]:
        return frozenset(index_shard(self._storage, name).keys())

    # ----------------------------------------------------------------------------------------------- the shards

    def _shard_for(self, split: str, key: str, parts: Mapping[str, PartContents]) -> OpenShard:
        shard = self._open.get(split)
        if shard is not None:
            size_bytes = sample_bytes(key, parts)
            is_full = shard.file.samples >= self._settings["samples_per_shard"]
            if is_full or shard.file.size_bytes + size_bytes + _END_BYTES > self._settings["shard_bytes"]:
                self._finish(shard)
                shard = None
        # Fill the numbers of shards that were lost first.
        if shard is None:
            shard_index = len(self._names) if "" not in self._names else self._names.index("")
            prefix = "shard" if self._rank is None else part_name(self._rank)
            name = f"{prefix}_{shard_index:06d}.tar"
            self._names[shard_index : shard_index + 1] = [name]
            shard = self._open[split] = OpenShard(self._storage, name, shard_index, split)
        return shard

    def _finish(self, shard: OpenShard) -> None:
        self._records.add(shard.finish())
        del self._open[shard.split]
