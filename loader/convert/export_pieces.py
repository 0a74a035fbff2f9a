"""Pieces of an export: samples that workers or shares read, in files next to the output until they are joined."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..arrays import IntArray
from ..dataset.dataset import Dataset
from ..dataset.opening import dataset_at
from ..dataset.records import as_bytes
from ..dataset.tar import tar_index
from ..engine.journal import Journal
from ..engine.run import Engine, JobTasks, in_order
from ..format.dataset_ref import DatasetRef
from ..storage import Storage, open_storage
from .sources.dataset import splits_of_samples
from .writing.place_shard import place_shard
from .writing.sample_writers import ExportedSample

_TASK_SAMPLES = 1024
_LENGTH_BYTES = 8  # before each sample of a piece
_READ_BYTES = 1 << 20


class SampleWithRepeats(NamedTuple):
    """A sample, and the names of its parts that occur several times, with the numbers of them."""

    sample: ExportedSample
    repeated: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Reads the samples of datasets.

    Attributes:
        refs: The datasets.
        prefixes: For each dataset the name that begins the names of its shards, which several datasets may share, with
            a slash; a file has no shards, and this name alone. Empty if there is one dataset.
        names: Names of the parts; None for all.
        has_splits: Samples get the names of their split parts.
    """

    refs: tuple[DatasetRef, ...]
    prefixes: tuple[str, ...]
    names: tuple[str, ...] | None
    has_splits: bool

    def read(self, folder: Dataset, dataset: int, numbers: IntArray) -> Iterator[SampleWithRepeats]:
        """Yield samples of an open dataset."""
        splits = splits_of_samples(folder) if self.has_splits else None
        for sample in numbers.tolist():
            shard, prefix = folder.index.shard_of(sample).name, self.prefixes[dataset] if self.prefixes else ""
            shard = f"{prefix}{shard}" if not prefix or prefix.endswith("/") else prefix
            parts = {name: as_bytes(value) for name, value in folder.read_parts(sample, self.names).items()}
            repeated: list[tuple[str, int]] = []
            if self.names is None:
                # Of several parts of one name, only one was read.
                every = folder.names_of_parts(sample)
                repeated = [(name, every.count(name)) for name in dict.fromkeys(every) if every.count(name) > 1]
            split = "" if splits is None else splits.name(sample)
            yield SampleWithRepeats(ExportedSample(shard, folder.index.key(sample), split, parts), repeated)


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A file of samples, or a copied shard.

    Attributes:
        size_bytes: Size of the file.
    """

    name: str
    samples: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PieceTask:
    """Samples of one dataset to read into a piece."""

    name: str
    dataset: int
    numbers: IntArray


def _write_piece(request: ReadRequest, storage: Storage, folder: str, task: PieceTask) -> Piece:
    """Read the samples of a task into a file; runs in workers."""
    name, size_bytes = f"{folder}/{task.name}", 0
    with closing(dataset_at(request.refs[task.dataset])) as opened, storage.create(name) as file:
        for read in request.read(opened, task.dataset, task.numbers):
            data = _packed(read)
            file.write(len(data).to_bytes(_LENGTH_BYTES, "little") + data)
            size_bytes += _LENGTH_BYTES + len(data)
    return Piece(task.name, len(task.numbers), size_bytes)


def _copy_shard(ref: DatasetRef, folder: str, shard_index: int) -> Piece:
    """Copy a whole shard to a folder; runs in workers."""
    with closing(dataset_at(ref)) as opened:
        shard = tar_index(opened).shards[shard_index]
        target = os.path.join(folder, shard.name)
        if os.path.lexists(target):  # of a run that was killed
            os.unlink(target)
        place_shard(opened, shard, target, "copy", final=folder)
    return Piece(shard.name, shard.samples, shard.size_bytes)


class Pieces:
    """The pieces of an export, in a hidden folder next to its output, which all shares see.

    Args:
        output: The new file or folder.
        request: All that the pieces depend on.
    """

    def __init__(self, output: str, engine: Engine, request: dict[str, str]) -> None:
        parent, base = os.path.split(os.path.abspath(output))
        self.storage = open_storage(parent)
        self.folder = f".{base}.export"
        self._engine = engine
        self._request = request

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder alone, or with other shares; remove it if the block ends without an error."""
        share = self._engine.share
        with ExitStack() as stack:
            stack.enter_context(self.storage.lock(f"{self.folder}/lock", shared=share is not None))
            if share is not None:
                stack.enter_context(self.storage.lock(f"{self.folder}/{share.number}.lock"))
            yield
        self.remove()

    def remove(self) -> None:
        self.storage.remove(self.folder)

    def of_samples(
        self, request: ReadRequest, chosen: Sequence[IntArray], *, on_progress: Callable[[int], None]
    ) -> Iterator[SampleWithRepeats]:
        """Yield the samples in order, as pieces of them arrive."""
        tasks: list[PieceTask] = []
        for dataset, numbers in enumerate(chosen):
            for start in range(0, len(numbers), _TASK_SAMPLES):
                tasks.append(PieceTask(f"{len(tasks):08}.piece", dataset, numbers[start : start + _TASK_SAMPLES]))
        sizes = [len(task.numbers) for task in tasks]
        for piece in self._run(partial(_write_piece, request, self.storage, self.folder), tasks, sizes, on_progress):
            yield from self._samples(piece)

    def copy_shards(self, folder: Dataset, ref: DatasetRef, *, on_progress: Callable[[int], None]) -> None:
        """Copy all shards; :meth:`path_of_shard` says where they are."""
        shards = tar_index(folder).shards
        sizes = [shard.size_bytes for shard in shards]
        copy = partial(_copy_shard, ref, self.storage.path(f"{self.folder}/shards"))
        for _ in self._run(copy, range(len(shards)), sizes, on_progress, inside="shards/"):
            pass

    def path_of_shard(self, name: str) -> str:
        """Return the path of a copied shard."""
        return self.storage.path(f"{self.folder}/shards/{name}")

    def _run(
        self,
        function: Callable[[Any], Piece],
        tasks: Sequence[Any],
        sizes: Sequence[int],
        on_progress: Callable[[int], None],
        *,
        inside: str = "",
    ) -> Iterator[Piece]:
        # A piece whose file was removed or cut short is written again.
        job = JobTasks(
            function=function,
            tasks=tasks,
            sizes=sizes,
            journal=Journal(self.storage, self.folder, Piece),
            command="export",
            request=self._request,
            again=lambda piece: self._is_lost(piece, inside),
        )

        def counted() -> Iterator[tuple[int, Piece]]:
            done = 0
            for task_index, piece in job.run(self._engine):
                done += piece.samples
                on_progress(done)
                yield task_index, piece

        # The pieces of a share are for the merge.
        if self._engine.share is not None:
            for _ in counted():  # ends with ShareDone
                pass
        yield from (piece for _, piece in in_order(counted()))

    def _is_lost(self, piece: Piece, inside: str) -> bool:
        name = f"{self.folder}/{inside}{piece.name}"
        return not self.storage.exists(name) or self.storage.stat(name).size_bytes != piece.size_bytes

    def _samples(self, piece: Piece) -> Iterator[SampleWithRepeats]:
        with open(self.storage.path(f"{self.folder}/{piece.name}"), "rb", buffering=_READ_BYTES) as file:
            while head := file.read(_LENGTH_BYTES):
                yield _unpacked(file.read(int.from_bytes(head, "little")))


_Packed = tuple[bytes, bytes, str, list[tuple[bytes, bytes]], list[tuple[bytes, int]]]
_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_Packed)


def _packed(read: SampleWithRepeats) -> bytes:
    # Names in a tar may be no UTF-8.
    sample = read.sample
    return _encoder.encode((
        os.fsencode(sample.shard), os.fsencode(sample.key), sample.split,
        [(os.fsencode(name), data) for name, data in sample.parts.items()],
        [(os.fsencode(name), count) for name, count in read.repeated],
    ))  # fmt: skip


def _unpacked(data: bytes) -> SampleWithRepeats:
    shard, key, split, parts, repeated = _decoder.decode(data)
    sample = ExportedSample(
        os.fsdecode(shard), os.fsdecode(key), split, {os.fsdecode(name): contents for name, contents in parts}
    )
    return SampleWithRepeats(sample, [(os.fsdecode(name), count) for name, count in repeated])


def digest_of_samples(chosen: Sequence[IntArray]) -> str:
    """Return a digest of the numbers of the chosen samples of each dataset."""
    digest = hashlib.sha256()
    for numbers in chosen:
        digest.update(len(numbers).to_bytes(8, "little") + np.ascontiguousarray(numbers, np.int64).tobytes())
    return digest.hexdigest()
