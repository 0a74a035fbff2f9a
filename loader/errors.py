"""Every exception this library raises on purpose.

    EnergonError
    ├── ConfigError    a file the user edits says something wrong (all faults of the file at once)
    │   └── EmptyDatasetError    there is no sample to load
    ├── FormatError    bytes on disk are not what the format says (shard, byte offset)
    ├── SampleError    one sample cannot be made (key, part, source); MissingFileError of a store is one
    ├── StateError     a saved state does not fit this run
    ├── StorageError   a file or folder cannot be read, written or locked (path)
    ├── TrustError     a dataset asks to run code that the caller did not allow
    └── WorkerError    a worker process died or hung

    SkipSample         raised by user code: leave this sample out, count nothing
    SampleException    raised by user code, as any other error may be: this sample cannot be used
    └── FatalSampleError   stop the run

An error carries fields, so that programs need not parse its text, and prints as up to three lines: what was
found and what was expected, where (``at``), and what to do about it (``do``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

__all__ = [
    "ConfigError",
    "EmptyDatasetError",
    "EnergonError",
    "FatalSampleError",
    "Fault",
    "FormatError",
    "SampleError",
    "SampleException",
    "SkipSample",
    "StateError",
    "StorageError",
    "TrustError",
    "WorkerError",
]


class EnergonError(Exception):
    """Base of all errors of this library.

    Args:
        found: What was found and what was expected, one sentence without a full stop.
        at: Where: a path, a byte range, a place in a document.
        do: What the reader can do about it.
    """

    def __init__(self, found: str, *, at: str | None = None, do: str | None = None, **fields: Any) -> None:
        super().__init__(found)
        self.found = found
        self.at = at
        self.do = do
        self._fields = fields

    def __str__(self) -> str:
        lines = [self.found]
        if self.at:
            lines.append(f"  at   {self.at}")
        if self.do:
            lines.append(f"  do   {self.do}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors travel from worker processes; the default reduction would lose the keyword arguments.
        return _rebuild, (type(self), self.found, {"at": self.at, "do": self.do, **self._fields})


def _rebuild(cls: type[EnergonError], found: str, fields: dict[str, Any]) -> EnergonError:
    return cls(found, **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing wrong in a document: ``place`` is the path inside it (``split_parts.train[2]``)."""

    place: str
    found: str

    def __str__(self) -> str:
        return f"{self.place}: {self.found}" if self.place else self.found


class ConfigError(EnergonError):
    """A file that the user edits, or an argument, says something wrong.

    Args:
        found: The summary; built from ``faults`` where there are some.
        file: The file concerned.
        faults: Everything that is wrong in it, not only the first thing.
    """

    def __init__(
        self,
        found: str = "",
        *,
        file: str | None = None,
        faults: Sequence[Fault] = (),
        at: str | None = None,
        do: str | None = None,
    ) -> None:
        self.file = file
        self.faults = tuple(faults)
        if not found:
            found = "\n".join(str(fault) for fault in self.faults)
        super().__init__(found, at=at or file, do=do, file=file, faults=self.faults)


class EmptyDatasetError(ConfigError):
    """A split part, or what a subset or a list of exclusions leaves of it, has no samples."""


class FormatError(EnergonError):
    """Bytes on disk are not what the format says.

    Args:
        found: What was found and what was expected.
        shard: The shard's path.
        offset: Byte offset in the shard, where known.
    """

    def __init__(
        self,
        found: str,
        *,
        shard: str | None = None,
        offset: int | None = None,
        at: str | None = None,
        do: str | None = None,
    ) -> None:
        self.shard = shard
        self.offset = offset
        if at is None and shard is not None:
            at = shard if offset is None else f"{shard}, byte {offset}"
        super().__init__(found, at=at, do=do, shard=shard, offset=offset)


class SampleError(EnergonError):
    """One sample cannot be made.

    Args:
        found: What was found and what was expected.
        key: The sample's key, ``<shard>/<key>``.
        part: The part concerned, where one is.
        source: Where its bytes lie, ``path, bytes a–b``.
    """

    def __init__(
        self,
        found: str,
        *,
        key: str | None = None,
        part: str | None = None,
        source: str | None = None,
        at: str | None = None,
        do: str | None = None,
    ) -> None:
        self.key = key
        self.part = part
        self.source = source
        super().__init__(found, at=at or source, do=do, key=key, part=part, source=source)


class StateError(EnergonError):
    """A saved state does not fit this run."""


class StorageError(EnergonError):
    """A file or folder cannot be read, written or locked.

    Args:
        found: What was found and what was expected.
        path: The file or folder.
    """

    def __init__(self, found: str, *, path: str | None = None, at: str | None = None, do: str | None = None) -> None:
        self.path = path
        super().__init__(found, at=at or path, do=do, path=path)


class TrustError(EnergonError):
    """A dataset asks to run code, or to load objects that can, and the caller did not allow it."""


class WorkerError(EnergonError):
    """A worker process died or hung."""


class SkipSample(Exception):  # noqa: N818 - the public name that training code raises
    """Raise in user code to leave the current sample out."""


class SampleException(ValueError):  # noqa: N818 - the public name that training code raises
    """Raise in user code where a sample cannot be used; any other error does as well."""

    @classmethod
    def from_sample(cls, sample: Any, message: str = "") -> Self:
        """Make the error of a sample, a dict or an object with a ``__key__``.

        >>> FatalSampleError.from_sample({"__key__": "s.tar/0"}, "no caption")
        FatalSampleError("sample 's.tar/0' failed: no caption")
        """
        key = sample.get("__key__") if isinstance(sample, dict) else getattr(sample, "__key__", None)
        return cls.from_sample_key(key, message)

    @classmethod
    def from_sample_key(cls, sample_key: str | None, message: str = "") -> Self:
        """Make the error of the sample with a key."""
        what = "a sample" if sample_key is None else f"sample {sample_key!r}"
        return cls(f"{what} failed{f': {message}' if message else ''}")


class FatalSampleError(SampleException):
    """Raise in user code to stop the run instead of skipping the sample."""
