"""The results of finished tasks on disk, one file each, so that an interrupted job resumes."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from operator import gt
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec

from ..errors import ConfigError, FormatError, StorageError
from ..storage import Storage, read_document

SHARDS = "shards"
"""Part of a request that describes the shards of the data."""

OF_THE_FUNCTION = "value of "
"""Begin of the name of a part of a request that describes a value which a function reads."""

_OF_THE_CODE = {"batch size", "function", "shares", "source of the function", "version"}
"""Differences of jobs whose tasks have the same samples, so that a user may keep the results."""

_DIGEST = re.compile(r"[0-9a-f]{8}[0-9a-f-]{8,56}")

_RESULT = re.compile(r"(\d{8,})\.result")
_CHECKSUM_BYTES = 4

JOB = "job.json"
"""Name of the description in the folder of a journal."""

_Result = TypeVar("_Result")


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a job: two jobs with the same description compute the same results.

    Attributes:
        command: Name of the command, for messages.
        request: All that results depend on: options, the uuid of the dataset, the source of the function.
        tasks: Number of tasks.
        starts: Number of the first task of each share; empty without shares.
        results: Name of the folder of its results; empty for one that follows from the request.
    """

    command: str
    request: dict[str, str]
    tasks: int
    starts: tuple[int, ...] = ()
    results: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{0,16}\Z")] = ""

    def __post_init__(self) -> None:
        if self.starts and (self.starts[0] != 0 or any(map(gt, self.starts, [*self.starts[1:], self.tasks]))):
            raise ValueError("its shares do not divide its tasks")

    def differences(self, other: Job) -> list[str]:
        """Return the names of the parts of the request that differ, and ``tasks`` and ``shares``."""
        names = sorted({*self.request, *other.request})
        differing = [name for name in names if self.request.get(name) != other.request.get(name)]
        differing += ["tasks"] * (self.tasks != other.tasks)
        return [*differing, *["shares"] * (len(self.starts) != len(other.starts))]

    def values(self, other: Job) -> str:
        """Return the values that differ, for the end of a message; digests say nothing to a reader."""
        both = [{**job.request, "tasks": str(job.tasks), "shares": str(len(job.starts))} for job in (self, other)]
        pairs = [(name, *(str(values.get(name, "")) for values in both)) for name in self.differences(other)]
        readable = [pair for pair in pairs if not any(map(_DIGEST.fullmatch, pair[1:]))]
        return "".join(f"; {name}: {left or 'none'} then, {right or 'none'} now" for name, left, right in readable)


class AlreadyDoneError(ConfigError):
    """A run with the same request has written the output before: commands then end with exit code 0."""


def decode_job(data: bytes) -> Job | None:
    """Return the job that is recorded in an output; None if the record is damaged."""
    try:
        return msgspec.json.decode(data, type=Job)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def output_exists(written: Job, job: Job, *, at: str) -> ConfigError:
    """Return the error of a job whose output is there: an ``AlreadyDoneError``, or one that names what differs.

    Args:
        written: The job that has written the output.
    """
    different = written.differences(job) if written.command == job.command else ["command"]
    if not different:
        return AlreadyDoneError("the same command has written this already", at=at)
    names = ", ".join(different)
    return ConfigError(
        f"energon {written.command} has written this, but not with the same {names}{written.values(job)}",
        at=at,
        hint="name another output; nothing is overwritten",
    )


@dataclass(slots=True)
class Journal(Generic[_Result]):
    """The results of the tasks of one job.

    Workers write results, and this process reads them; a file appears whole or not at all. The results of a job are in
    a folder of its own, so that a process of an earlier job that is still running writes nothing into a later one.

    Args:
        storage: Where the journal lies.
        folder: Its folder there, which the command has for itself.
        kind: Type of a result, which :mod:`msgspec` encodes.

    Attributes:
        results: Folder of the results in ``folder``, set when a job has begun, or is merged.
    """

    storage: Storage
    folder: str
    kind: Any
    results: str = field(default="", init=False)

    def begin(self, job: Job, *, restart: bool = False, keeps_results: bool = False) -> Job:
        """Write the description of the job, or compare it with the one that is there; return the one that counts.

        Args:
            restart: Give up the results of another job, and of this one unless other shares may have written them.
            keeps_results: Take the results of another job that differs only in the code as results of this one.

        Raises:
            ConfigError: The folder has results of another job.
        """
        job = msgspec.structs.replace(job, results=job.results or _name_of_results(job))
        if restart:
            self._give_up(job)
        there = self.describe(job)
        different = there.differences(job)
        is_keepable = all(name in _OF_THE_CODE or name.startswith(OF_THE_FUNCTION) for name in different)
        if different and keeps_results and is_keepable:
            there = msgspec.structs.replace(job, results=there.results)
            self.storage.write(f"{self.folder}/{JOB}", msgspec.json.encode(there))
        elif different:
            names = ", ".join(different)
            raise ConfigError(
                f"an unfinished {there.command} with another {names} has results here{there.values(job)}",
                at=self.storage.path(self.folder),
                hint="finish it with the same options; or discard its results with --restart"
                + (", or reuse them with --keep-results" if is_keepable else "")
                + "; in Python, pass an Engine with this option",
            )
        self.results = there.results
        return there

    def describe(self, job: Job) -> Job:
        """Write the description of the job unless there is one; return the one that is there."""
        self.storage.create_once(f"{self.folder}/{JOB}", msgspec.json.encode(job))
        return self.job() or job

    def check_visible(self) -> None:
        """Raise a ``StorageError`` in a worker that sees another folder than the command, which may be a dataset."""
        there = self.job()
        if there is None or there.results != self.results:
            raise other_folder(self.storage.path(self.folder))

    def _give_up(self, job: Job) -> None:
        """Remove results before a job begins; several shares may do so at the same time."""
        try:
            there = self.job()
        except FormatError:
            there = Job(command="", request={}, tasks=0)
        # Other processes see either description, and results of one job alone.
        if there is not None and (there.differences(job) or there.results != job.results):
            self.storage.write(f"{self.folder}/{JOB}", msgspec.json.encode(job))
            if there.results not in ("", job.results):
                self._remove(there.results)
        if not job.starts:
            self._remove(job.results)

    def _remove(self, results: str) -> None:
        folder = f"{self.folder}/{results}"
        if self.storage.exists(folder):
            self.storage.remove(folder)

    def job(self) -> Job | None:
        """Return the description of the job whose results are here; None if none was begun."""
        file = f"{self.folder}/{JOB}"
        try:
            return msgspec.json.decode(read_document(self.storage, file), type=Job)
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                return None
            raise
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise FormatError(
                f"the description of an unfinished job is damaged: {error}",
                shard=self.storage.path(file),
                hint="remove this file and run the same command again, in all shares; or begin again with --restart",
            ) from error

    def finished(self) -> set[int]:
        """Return the numbers of the tasks that have results."""
        folder = f"{self.folder}/{self.results}"
        if not self.storage.exists(folder):
            return set()
        names = (file.name.rpartition("/")[2] for file in self.storage.list(folder))
        return {int(match[1]) for match in map(_RESULT.fullmatch, names) if match}

    def write(self, task_index: int, result: _Result) -> None:
        """Store the result of a task; a later one replaces it."""
        data = msgspec.msgpack.encode(result)
        self.storage.write(self._file(task_index), zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "little") + data)

    def read(self, task_index: int) -> _Result | None:
        """Return the result of a task; None if it is damaged, as after a power cut."""
        stored = self.storage.read(self._file(task_index))
        data = memoryview(stored)[_CHECKSUM_BYTES:]
        if zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "little") != stored[:_CHECKSUM_BYTES]:
            return None
        try:
            result: _Result = msgspec.msgpack.decode(data, type=self.kind)
        except msgspec.DecodeError:
            return None
        return result

    def discard(self) -> None:
        """Remove the journal."""
        self.storage.remove(self.folder)

    def _file(self, task_index: int) -> str:
        return f"{self.folder}/{self.results}/{task_index:08}.result"


def other_folder(path: str) -> StorageError:
    """Return the error of a worker that does not see what the command has begun in a folder."""
    return StorageError(
        "a worker does not see the work of this command here, or another command has given it up; the worker has"
        " written nothing",
        path=path,
        hint="use a folder that all workers see under the same path, then run the same command again",
    )


def _name_of_results(job: Job) -> str:
    """Return 16 hex digits that name what a job computes, whatever its shares."""
    described = [job.command, sorted(job.request.items()), job.tasks]
    return hashlib.sha256(msgspec.json.encode(described)).hexdigest()[:16]


class NumberedTask(NamedTuple):
    """A task with its number in the journal."""

    task_index: int
    task: Any

    @property
    def name(self) -> str:
        """Name of the task for messages."""
        return str(getattr(self.task, "name", self.task))


@dataclass(frozen=True, slots=True)
class Journaled(Generic[_Result]):
    """A function of numbered tasks that stores its results, and yields their receipts; runs in workers."""

    function: Callable[[Any], _Result]
    journal: Journal[_Result]
    receipt: Callable[[_Result], _Result] | None = None

    def __call__(self, numbered: NumberedTask) -> Generator[_Result, None, None]:
        task_index, task = numbered
        self.journal.check_visible()
        result = self.function(task)
        self.journal.write(task_index, result)
        yield result if self.receipt is None else self.receipt(result)
