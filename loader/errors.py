"""The exceptions that this library raises on purpose.

    EnergonError
    ├── ConfigError    a file of the user, or an argument, is invalid (lists all faults of the file)
    │   ├── EmptyDatasetError    there is no sample to load
    │   └── MissingPackageError  a package that this needs is not installed (also an ImportError)
    ├── FormatError    bytes on disk violate the format (shard, byte offset)
    ├── SampleError    one sample cannot be loaded (key, part, source); a store's MissingFileError is one
    │   └── RepeatedSampleError    too many samples failed or were skipped (also a FatalSampleError)
    ├── StateError     a saved state does not fit this run
    ├── StorageError   a file or folder cannot be read, written or locked (path)
    ├── TrustError     a dataset asks to run code that the caller did not allow
    └── WorkerError    a worker process died or hung

    SkipSample         raised by user code: skip this sample without counting a failure
    SampleException    raised by user code, as any other error: this sample cannot be used
    └── FatalSampleError   stop the run

An error has fields, so that programs need not parse its text. It prints as up to three lines: what was expected and
what was found, the place (``at:``), and what to do about it (``hint:``). Names from data (keys, paths, captions) are
part of these lines, so characters that a terminal would interpret are escaped; fields such as ``path`` are unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

# Control characters, line separators and bidirectional marks could rewrite the terminal's contents, and characters
# without width hide what differs between two names. Lone surrogates represent bytes that are not UTF-8; no encoding can
# print them. Joiners (U+200C, U+200D) form letters and emoji of many scripts, but join nothing next to ASCII.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
    "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)


# These patterns take time linear in the text: a match begins at a fixed word, and takes what it has scanned.
_QUERY = re.compile(r"(?<!\bfile)(?<!\blocal)(://[^\s?'\"<>]*)(\?[^\s'\"<>]+)?", re.IGNORECASE)
_USER = re.compile(r"://[^/\s?#'\"<>]*@")
_NAMED = re.compile(  # lines of headers, their values in quotes, and other secrets by name
    r"(\b(?:(?:proxy-)?authorization|(?:set-)?cookie)\b['\"]?[:=] *)(?:b?'[^']*'|b?\"[^\"]*\"|[^\n'\"]+)"
    r"|((?:password|passwd|secret|token|signature|credential|(?:api|access|secret)[_-]?key(?:[_-]?id)?)"
    r"(?:=|['\"]: ?))(?:b?'[^']*'|b?\"[^\"]*\"|[^\s,;&'\"]+)"
    r"|(\b(?:bearer|basic) +)[\w.~+/-]{16,}=*",
    re.IGNORECASE,
)


def hide_secrets(text: str) -> str:
    """Replace passwords, tokens and signatures of a text: queries of URLs, headers, and what has such a name.

    >>> hide_secrets("https://me:secret@host/a.jpg?sig=secret is missing")
    'https://host/a.jpg?… is missing'
    >>> hide_secrets("{'Authorization': 'Bearer abc', 'Accept': '*/*'} password=abc, retry")
    "{'Authorization': …, 'Accept': '*/*'} password=…, retry"
    """
    if "://" in text:
        text = _QUERY.sub(lambda match: f"{match[1]}{'?…' if match[2] else ''}", text)
        text = _USER.sub(lambda match: "://" if ":" in match[0][3:] else match[0], text)
    return _NAMED.sub(lambda match: f"{match[1] or match[2] or match[3]}…", text)


def escape_controls(text: str, *, keep: str = "") -> str:
    r"""Escape characters that a terminal would interpret instead of print.

    Args:
        text: Text from a dataset: a key, a caption, or a message that quotes one.
        keep: Characters to leave as they are, such as a newline.

    >>> escape_controls("red: \x1b[31m")
    'red: \\x1b[31m'
    """

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character in keep:
            return character
        code = ord(character)
        if 0xDC80 <= code <= 0xDCFF:
            code -= 0xDC00  # a byte decoded with surrogateescape
        named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character)
        form = "\\x{:02x}" if code < 0x100 else "\\u{:04x}" if code < 0x10000 else "\\U{:08x}"
        return named or form.format(code)

    return _UNSAFE.sub(escape, text)


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Format a count and its noun.

    Args:
        nouns: The plural, also with a verb; None appends an s.

    >>> plural(1, "shard"), plural(1200, "shard"), plural(2, "entry is", "entries are")
    ('1 shard', '1,200 shards', '2 entries are')
    """
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


_KEPT = {"message": "\n\t", "at": "", "hint": "\n\t", "cause": "\n\t"}
"""The texts of an error, and the control characters that they may have: messages may have several lines."""


class EnergonError(Exception):
    """Base class of the errors of this library.

    Args:
        message: What was expected and what was found, one sentence without a final period.
        at: Place of the fault: a path, a byte range, a position in a document.
        hint: Instruction that resolves the fault.

    >>> try:
    ...     get_train_dataset("phoots", batch_size=2)
    ... except EnergonError as error:
    ...     print(error.message)
    ...     print(error.hint)
    this folder does not exist
    check the path
    """

    def __init__(self, message: str, *, at: str | None = None, hint: str | None = None, **fields: Any) -> None:
        self.message = message
        super().__init__(self.message)
        self.at = at
        self.hint = hint
        self._fields = fields

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _KEPT and isinstance(value, str):
            value = hide_secrets(escape_controls(value, keep=_KEPT[name]))
        super().__setattr__(name, value)

    def __str__(self) -> str:
        lines = [self.message]
        if self.at:
            lines.append(f"  at: {self.at}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        # Worker processes send errors pickled; the default reduction would lose the keyword arguments.
        return _rebuild, (type(self), self.message, {"at": self.at, "hint": self.hint, **self._fields})


def error_text(error: BaseException) -> str:
    """Return the type and the message of an error as they are stored and shown, without secrets.

    >>> error_text(ValueError("token=abc")), error_text(ValueError())
    ('ValueError: token=…', 'ValueError')
    """
    try:
        text = error.message if isinstance(error, EnergonError) else hide_secrets(str(error))
    except Exception as fault:  # noqa: BLE001 - of the __str__ of a user's class
        text = f"its message cannot be formatted: {type(fault).__name__}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _rebuild(cls: type[EnergonError], message: str, fields: dict[str, Any]) -> EnergonError:
    return cls(message, **fields)


@contextmanager
def required_package(message: str, *, at: str | None = None, hint: str) -> Iterator[None]:
    """Import an optional package in the block; raise an error with this message if it is missing."""
    try:
        yield
    except ImportError as error:
        raise MissingPackageError(message, at=at, hint=hint) from error


@contextmanager
def torch_needed() -> Iterator[None]:
    """Raise an error that names torch if the block, or code of others that it runs, needs it and it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "torch":
            raise
        raise MissingPackageError("this needs the package torch: pip install torch") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault in a document; ``place`` is the path inside the document (``split_parts.train[2]``)."""

    place: str
    message: str

    def __str__(self) -> str:
        message = escape_controls(self.message, keep=_KEPT["message"])
        return f"{escape_controls(self.place)}: {message}" if self.place else message


class ConfigError(EnergonError):
    """A file that the user edits, or an argument, is invalid.

    Args:
        message: Summary; built from ``faults`` if empty.
        file: Path of the file.
        faults: All faults of the file, not only the first.

    >>> try:
    ...     get_train_dataset("photos", batch_size=0)
    ... except ConfigError as error:
    ...     print(error.message)
    expected batch_size of at least 1, or None, found 0
    """

    def __init__(
        self,
        message: str = "",
        *,
        file: str | None = None,
        faults: Sequence[Fault] = (),
        at: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.file = file
        self.faults = tuple(faults)
        if not message:
            message = "\n".join(str(fault) for fault in self.faults)
        super().__init__(message, at=at or file, hint=hint, file=file, faults=self.faults)


class EmptyDatasetError(ConfigError):
    """A split part has no samples, perhaps because a subset or a list of exclusions selects none.

    >>> try:
    ...     get_val_dataset("photos", batch_size=2)
    ... except EmptyDatasetError as error:
    ...     print(error.message)
    split part 'val' of this dataset has no samples
    """


class MissingPackageError(ConfigError, ImportError):
    """A package that this needs is not installed; the message or the hint has the command that installs it.

    >>> print(MissingPackageError("this needs the package av", hint="pip install 'energon-toolkit[av]'"))
    this needs the package av
      hint: pip install 'energon-toolkit[av]'
    """


class FormatError(EnergonError):
    """Bytes on disk violate the format.

    Args:
        message: What was expected and what was found.
        shard: Path of the shard.
        offset: Byte offset in the shard, if known.

    >>> print(FormatError("expected a header of 512 bytes, found 100", shard="shard_0.tar", offset=1024))
    expected a header of 512 bytes, found 100
      at: shard_0.tar, byte 1024
    """

    def __init__(
        self,
        message: str,
        *,
        shard: str | None = None,
        offset: int | None = None,
        at: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.shard = shard
        self.offset = offset
        if at is None and shard is not None:
            at = shard if offset is None else f"{shard}, byte {offset}"
        super().__init__(message, at=at, hint=hint, shard=shard, offset=offset)


class SampleError(EnergonError):
    """One sample cannot be loaded.

    Args:
        message: What was expected and what was found.
        key: Key of the sample, ``<shard>/<key>``.
        part: Name of the part, if the fault is in one part.
        source: Place of its bytes, ``path, bytes a–b``.
        code: Code of the reason for the account of an import; ``energon rule`` explains it.

    >>> error = SampleError("expected a JPEG, found b'GIF89a'", key="shard_0.tar/0001", part="jpg")
    >>> error.key, error.part
    ('shard_0.tar/0001', 'jpg')
    """

    def __init__(
        self,
        message: str,
        *,
        key: str | None = None,
        part: str | None = None,
        source: str | None = None,
        code: str = "F101",
        at: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.key = key
        self.part = part
        self.source = source
        self.code = code
        super().__init__(message, at=at or source, hint=hint, key=key, part=part, source=source, code=code)


class StateError(EnergonError):
    """A saved state does not fit this run.

    >>> try:
    ...     get_loader(get_train_dataset("photos", batch_size=2)).restore_state_rank({})
    ... except StateError as error:
    ...     print(error.message)
    expected the result of save_state_rank(), found a dict with the keys []
    """


class StorageError(EnergonError):
    """A file or folder cannot be read, written or locked.

    Args:
        message: What was expected and what was found.
        path: Path of the file or folder.

    >>> try:
    ...     open_dataset("phoots")
    ... except StorageError as error:
    ...     print(error.message)
    this folder does not exist
    """

    def __init__(
        self, message: str, *, path: str | None = None, at: str | None = None, hint: str | None = None
    ) -> None:
        self.path = path
        super().__init__(message, at=at or path, hint=hint, path=path)

    @property
    def is_missing(self) -> bool:
        """True if the file does not exist: the cause is a ``FileNotFoundError``."""
        return isinstance(self.__cause__, FileNotFoundError)


class TrustError(EnergonError):
    """A dataset asks to run code, or to load objects that can, and the caller did not allow it.

    >>> photos = CrudeWebdataset("photos", part_filter="code.py:wanted", split_part="train")
    >>> try:
    ...     list(get_loader(photos.build()))
    ... except TrustError as error:
    ...     print(error.message)
    dataset.yaml asks to run wanted() of code.py
    """


class WorkerError(EnergonError):
    """A worker process died or hung.

    Attributes:
        item: Index of the item that it worked on; None if it is not known.
        how: How it ended: "was killed by signal 9".

    >>> print(WorkerError("worker 1 was killed by signal 9", hint="see whether the machine has enough memory"))
    worker 1 was killed by signal 9
      hint: see whether the machine has enough memory
    """

    item: int | None = None
    how: str = ""


class SkipSample(Exception):  # noqa: N818 - the public name that training code raises
    """Raise in user code to skip the current sample.

    >>> def keep_short(sample):
    ...     if len(sample["txt"]) > 100:
    ...         raise SkipSample
    ...     return sample
    >>> keep_short({"txt": "a cat"})
    {'txt': 'a cat'}
    """


class SampleException(ValueError):  # noqa: N818 - the public name that training code raises
    """Raise in user code if a sample cannot be used; any other error has the same effect."""

    @classmethod
    def from_sample(cls, sample: Any, message: str = "") -> Self:
        """Create the error of a sample, a dict or an object with a ``__key__``.

        >>> FatalSampleError.from_sample({"__key__": "s.tar/0"}, "no caption")
        FatalSampleError("sample 's.tar/0' failed: no caption")
        """
        key = sample.get("__key__") if isinstance(sample, dict) else getattr(sample, "__key__", None)
        return cls.from_sample_key(key, message)

    @classmethod
    def from_sample_key(cls, sample_key: str | None, message: str = "") -> Self:
        """Create the error of the sample with a key."""
        sample = "a sample" if sample_key is None else f"sample {sample_key!r}"
        return cls(escape_controls(f"{sample} failed{f': {message}' if message else ''}", keep=_KEPT["message"]))


class FatalSampleError(SampleException):
    """Raise in user code to stop the run instead of skipping the sample.

    >>> def check(sample):
    ...     if sample["label"] not in ("cat", "dog"):
    ...         raise FatalSampleError(f"expected a cat or a dog, found {sample['label']!r}")
    >>> check({"label": "cat"})
    """


@lru_cache
def _fatal_kind(kind: type[Exception]) -> type[Exception]:
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__reduce__": _reduce_fatal}
    return type(kind.__name__, (kind, FatalSampleError), names)


def _reduce_fatal(error: Exception) -> tuple[Any, ...]:
    """Pickle an error of :func:`as_fatal` as the type that can be imported, which it has besides."""
    kind = type(error).__bases__[0]
    return _fatal_of, (kind, *kind.__reduce__(error)[1:])  # type: ignore[call-arg] # not the one of object


def _fatal_of(kind: type[Exception], args: tuple[Any, ...], attributes: dict[str, Any] | None = None) -> Exception:
    made = _fatal_kind(kind)(*args)  # type: ignore[arg-type] # a type is hashable
    made.__setstate__(attributes)
    return made


def as_fatal(error: Exception) -> Exception:
    """Return an error that is a :class:`FatalSampleError` and of the same type as another, with its traceback.

    >>> error = as_fatal(SyntaxError("no statement"))
    >>> error, isinstance(error, SyntaxError), isinstance(error, FatalSampleError)
    (SyntaxError('no statement'), True, True)
    """
    made = _fatal_of(type(error), *error.__reduce__()[1:])  # its arguments and attributes
    if isinstance(error, NameError):
        made.name = error.name  # type: ignore[attr-defined] # for "Did you mean", which its attributes lack
    return made.with_traceback(error.__traceback__)


class RepeatedSampleError(SampleError, FatalSampleError):
    """So many samples failed or were skipped that the run stops; its cause is the last failure, if any.

    Args:
        message: As in :class:`SampleError`.
        cause: The sample and error of the first of these failures; it is the last line of the printed error.
        fields: The other arguments of :class:`SampleError`.

    >>> config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1, skip_tolerance=2)
    >>> photos = get_dataset_from_config("photos", split_part="train", training=False, worker_config=config).build()
    >>> try:
    ...     list(get_loader(FilterDataset(photos, lambda sample: False)))
    ... except RepeatedSampleError as error:
    ...     print(error.message)
    FilterDataset (<lambda>) has skipped 2 samples in a row in lane 0, and has kept none
    """

    def __init__(self, message: str, *, cause: str | None = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.cause = cause
        self._fields["cause"] = cause

    def __str__(self) -> str:
        return super().__str__() + (f"\n  cause: {self.cause}" if self.cause else "")
