"""Samples and parts that a map returns, written by its workers to the shards of a new dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import numpy as np

from ..arrays import IntArray
from ..convert.added_parts import ALL_PART, write_join
from ..convert.resharding import carried_documents
from ..convert.writing.new_output import check_new_folder, check_outside
from ..convert.writing.sample_parts import SampleParts, checked_key, description, encode_part, type_of_sample
from ..convert.writing.shard_file import FileContents
from ..convert.writing.written_shards import indexed_shard, version_of
from ..dataset.dataset import Dataset
from ..dataset.opening import folder_at
from ..dataset.split_parts import runs_of_part
from ..engine.journal import Journal
from ..errors import ConfigError, EnergonError, SampleError
from ..format.carry import Carried, NewOrder, OldDataset
from ..format.dataset_ref import DatasetRef
from ..format.documents.sample_types import CRUDE
from ..format.index.layout import ShardEntry
from ..format.nv_meta import DATASET_YAML, JOBS_FOLDER
from ..format.prepare.plan import PreparePlan, SplitRequest
from ..format.prepare.run import run_prepare
from ..storage import FileInfo, Storage, open_storage
from .tasks import Failure, MapTask, TaskResult, WrittenShard

_SHARD_BYTES = 1 << 30  # a task of large results has several shards


@dataclass(frozen=True, kw_only=True)
class ToDataset:
    """Write the samples that the function returns, none, one or several for each, to a new dataset.

    Attributes:
        ref: The dataset of the samples, whose split, columns and filters the new one takes over.
        output: Path or URL of a new or empty folder.
    """

    ref: DatasetRef
    output: str
    _splits: list[tuple[int, int, str]] = field(default_factory=list, init=False, compare=False)

    def storage(self, folder: Dataset | None = None) -> Storage:  # noqa: ARG002 - as of other outputs
        """Open the new folder, which has the journal, too."""
        return open_storage(self.output)

    def check(self) -> None:
        """Raise an error if the folder has other files, or is in the dataset."""
        check_outside(self.output, [self.ref.path])
        storage = self.storage()
        if not storage.exists(JOBS_FOLDER):
            check_new_folder(storage, JOBS_FOLDER, hint="name a new folder")

    # ------------------------------------------------------------------------------------------------ in workers

    def collect(self, task: MapTask, values: Sequence[Any], keys: Sequence[str], numbers: IntArray) -> TaskResult:
        shards: list[WrittenShard] = []
        failures: list[Failure] = []
        part_names: set[str] = set()
        kinds: set[str] = set()
        storage = self.storage()
        # Samples of one split part are in shards of their own.
        for split, rows in self._by_split(numbers):
            writer = _TaskShards(storage, f"shard_{task.start:09d}", split)
            with writer:
                for row in rows:
                    try:
                        for key, parts, kind in self._outputs(values[row], keys[row]):
                            writer.write(key, parts, int(numbers[row]))
                            part_names.update(parts)
                            kinds.add(kind)
                    except EnergonError as error:
                        failed = Failure(number=int(numbers[row]), key=keys[row], error=f"SampleError: {error.message}")
                        failures.append(failed)
            shards += writer.shards
        return TaskResult(
            failures=tuple(failures),
            shards=tuple(shards),
            written=sum(len(shard.samples) for shard in shards),
            part_names=tuple(sorted(part_names)),
            kinds=tuple(sorted(kinds)),
        )

    def _by_split(self, numbers: IntArray) -> Iterator[tuple[str, list[int]]]:
        """Yield each split part with the positions of its samples, in the order of their first ones."""
        if not self._splits:
            self._splits.extend(_runs_of_splits(folder_at(self.ref)))
        rows: dict[str, list[int]] = {}
        for row, number in enumerate(numbers.tolist()):
            split = next((name for start, stop, name in self._splits if start <= number < stop), "")
            rows.setdefault(split, []).append(row)
        yield from rows.items()

    def _outputs(self, value: Any, key: str) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Yield the key, the encoded parts and the type of each sample that a value stands for."""
        if value is None:
            return
        several = isinstance(value, list | tuple)
        bare = key.partition(".tar/")[2] or key
        for position, sample in enumerate(value if several else [value]):
            own = f"{bare}_{position}" if several else bare
            kind = "" if isinstance(sample, Mapping) else type_of_sample(sample)
            if kind is None:
                raise SampleError(
                    f"expected a sample or a dictionary of parts, found {type(sample).__name__}",
                    at=key,
                    hint='return {"jpg": picture, "txt": text}, a typed sample, or a list of these',
                )
            if isinstance(sample, Mapping):
                given = sample.get("__key__")
                own = own if given is None else str(given).rpartition(".tar/")[2]
                parts = {name: part for name, part in sample.items() if not name.startswith("__")}
            else:
                parts = SampleParts(kind).parts(sample, key=own)
            checked_key(own, parts)
            yield own, {name: encode_part(name, part, key=own) for name, part in parts.items()}, kind

    # ---------------------------------------------------------------------------------------- the end of the job

    def commit(
        self,
        folder: Dataset,
        tasks: Sequence[MapTask],
        journal: Journal[TaskResult],
        made_by: str,  # noqa: ARG002 - as of other outputs
    ) -> list[str]:
        """Prepare the shards of all tasks as a dataset, with the columns and filters of the old one."""
        storage = self.storage()
        results = [result for number in range(len(tasks)) if (result := journal.read(number)) is not None]
        shards = sorted((shard for result in results for shard in result.shards), key=lambda each: each.name)
        if not shards:
            raise ConfigError("no sample was written", at=self.output, hint="return a sample for some of them")
        storage.flush([shard.name for shard in shards])
        self._carry(folder, storage, shards)
        split: dict[str, tuple[str, ...]] = {}
        for shard in shards:
            split[shard.split or "train"] = (*split.get(shard.split or "train", ()), shard.name)
        run_prepare(
            PreparePlan(
                path=self.output,
                split=SplitRequest(parts=split),
                files=self._documents(folder, results),
            )
        )
        return [self.output]

    def _carry(self, folder: Dataset, storage: Storage, shards: Sequence[WrittenShard]) -> None:
        numbers = np.array([number for shard in shards for number in shard.samples], np.int64)
        entries, first = [], 0
        for shard in shards:
            info = FileInfo(name=shard.name, size_bytes=shard.size_bytes, mtime_ns=0)
            entries.append(ShardEntry.of_file(info, samples=len(shard.samples), first_sample=first))
            first += len(shard.samples)
        old = OldDataset(folder.path, folder.storage, folder.index.shards)
        Carried().write(NewOrder([old], [(0, numbers)], entries), storage)

    def _documents(self, folder: Dataset, results: Sequence[TaskResult]) -> dict[str, str]:
        """Return ``dataset.yaml``: of typed samples, by their type; else the old one, if the parts are there."""
        kinds = sorted({kind for result in results for kind in result.kinds})
        if len(kinds) > 1:
            names = ", ".join(kind or "dictionaries" for kind in kinds)
            raise ConfigError(
                f"the function returned samples of several types: {names}",
                at=self.output,
                hint="return samples of one type",
            )
        if kinds and kinds[0]:
            return {DATASET_YAML: SampleParts(kinds[0]).description()}
        config = folder.documents.config
        names = {name for result in results for name in result.part_names}
        if config is not None and config.field_map is not None and not config.field_map.missing(sorted(names)):
            return carried_documents(folder)
        return {DATASET_YAML: str(description(CRUDE.name, None))}


@dataclass(frozen=True, kw_only=True)
class ToParts(ToDataset):
    """Write what the function returns as new parts, in a dataset next to the old one, and the join of both.

    The function returns a dictionary of parts; samples without one have no new parts.
    """

    def _by_split(self, numbers: IntArray) -> Iterator[tuple[str, list[int]]]:
        yield ALL_PART, list(range(len(numbers)))

    def _outputs(self, value: Any, key: str) -> Iterator[tuple[str, dict[str, Any], str]]:
        if value is not None and not isinstance(value, Mapping):
            raise SampleError(
                f"expected a dictionary of parts, found {type(value).__name__}",
                at=key,
                hint='return {"caption.txt": text}',
            )
        given = value and {name: part for name, part in value.items() if name != "__key__"}
        yield from super()._outputs(given, key)

    def commit(
        self, folder: Dataset, tasks: Sequence[MapTask], journal: Journal[TaskResult], made_by: str
    ) -> list[str]:
        """Prepare the shards of the parts, and write the metadataset that joins them with the dataset."""
        super().commit(folder, tasks, journal, made_by)
        return [self.output, write_join(folder, self.output)]

    def _carry(self, folder: Dataset, storage: Storage, shards: Sequence[WrittenShard]) -> None:
        """Do nothing: a join has the columns of its first dataset."""

    def _documents(self, folder: Dataset, results: Sequence[TaskResult]) -> dict[str, str]:  # noqa: ARG002
        return {DATASET_YAML: str(description(CRUDE.name, None))}


def _runs_of_splits(folder: Dataset) -> Iterator[tuple[int, int, str]]:
    """Yield the ranges of samples of each split part: first sample, end, and name."""
    split = folder.documents.split
    for name in split.split_parts if split else ():
        for run in runs_of_part(folder, name):
            yield run.start, run.stop, name


class _TaskShards:
    """The shards that a task writes for one split part."""

    def __init__(self, storage: Storage, stem: str, split: str) -> None:
        self.shards: list[WrittenShard] = []
        self._storage = storage
        self._stem = stem if not split or split == ALL_PART else f"{stem}_{split}"
        self._split = split
        self._open: Any = None
        self._numbers: list[int] = []
        self._keys: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open is not None:
            if kind is None:
                self._finish()
            else:
                self._open[1].__exit__(kind, error, trace)

    def write(self, key: str, parts: dict[str, Any], number: int) -> None:
        if key in self._keys:
            raise SampleError(f"two samples of a task have the key {key!r}", at=key, hint="return other keys")
        if self._open is not None and self._open[0].size_bytes > _SHARD_BYTES:
            self._finish()
        if self._open is None:
            name = f"{self._stem}_{len(self.shards):02d}.tar"
            context = indexed_shard(self._storage, name)
            self._open = context.__enter__(), context, name
        try:
            self._open[0].write(key, parts)
        finally:
            for contents in parts.values():
                if isinstance(contents, FileContents):
                    contents.file.close()
        self._keys.add(key)
        self._numbers.append(number)

    def _finish(self) -> None:
        shard, context, name = self._open
        self._open = None
        context.__exit__(None, None, None)
        _, size_bytes, version = version_of(shard.info)
        self.shards.append(
            WrittenShard(
                name=name, size_bytes=size_bytes, version=version, split=self._split, samples=tuple(self._numbers)
            )
        )
        self._numbers = []
