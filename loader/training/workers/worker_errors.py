"""Exceptions on their way from a worker process to the process that waits for its batches.

torch's DataLoader makes them anew from their type and a text, which loses fields and causes. Here they travel whole:
type, fields, notes and the chain of causes, and as a note what the traceback in the worker was.
"""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass
from typing import Any, NoReturn

from ...errors import WorkerError

__all__ = ["PackedError", "pack_error", "raise_packed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedError:
    """An exception and the exceptions behind it, as a picklable value.

    Attributes:
        links: The pickled exceptions, each followed by its cause; None for one that does not pickle.
        texts: Type and message of each, for those that do not pickle.
        trace: The traceback as it would have been printed in the worker.
        worker: The number of the worker process, None where it had none.
    """

    links: tuple[bytes | None, ...]
    texts: tuple[str, ...]
    trace: str
    worker: int | None = None


def pack_error(error: BaseException, *, worker: int | None = None) -> PackedError:
    """Make an exception fit to be sent to another process; never raises."""
    chain = _chain(error)
    return PackedError(
        links=tuple(_pickled(link) for link in chain),
        texts=tuple(_text(link) for link in chain),
        trace="".join(traceback.format_exception(error)).rstrip(),
        worker=worker,
    )


def raise_packed(packed: PackedError) -> NoReturn:
    """Raise what was packed in another process, with a note of its traceback there.

    Raises:
        BaseException: The exception, with its causes.
        WorkerError: It does not pickle, or would end a loop unnoticed (``StopIteration``); the text names it.
    """
    error = _unpacked(packed)
    indented = "\n".join(f"  {line}" for line in packed.trace.splitlines())
    where = "in the worker process" if packed.worker is None else f"in worker process {packed.worker}"
    error.add_note(f"{where}:\n{indented}")
    raise error


def _unpacked(packed: PackedError) -> BaseException:
    chain = [_loaded(link, text) for link, text in zip(packed.links, packed.texts, strict=True)]
    if isinstance(chain[0], StopIteration | StopAsyncIteration | GeneratorExit):
        chain[0] = _stand_in(packed.texts[0])
    for link, cause in zip(chain, [*chain[1:], None], strict=True):
        link.__cause__ = cause
    return chain[0]


def _chain(error: BaseException) -> list[BaseException]:
    """Give an exception, its cause, the cause of that, and so on: all that a traceback prints."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and all(link is not earlier for earlier in chain):
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain


def _text(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception_only(error)).strip()
    except Exception:
        return type(error).__qualname__


def _pickled(error: BaseException) -> bytes | None:
    """Pickle an exception if another process will find in it what is in it here."""
    for pickled in (_as_it_says, _without_init):
        try:
            data = pickled(error)
            found = pickle.loads(data)  # noqa: S301 - our own bytes
            if type(found) is type(error) and str(found) == str(error):
                return data
        except Exception:  # noqa: S112 - users' classes may raise anything here; the next way is tried
            continue
    return None


def _as_it_says(error: BaseException) -> bytes:
    return pickle.dumps(error)


def _without_init(error: BaseException) -> bytes:
    """Pickle an exception whose ``__init__`` does not take its ``args``, as with most that add fields."""
    return pickle.dumps(_Bare(error))


class _Bare:
    """Pickles as an exception that is made without calling ``__init__``."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_bare, (type(self._error), self._error.args, self._error.__dict__)


def _made_bare(kind: type[BaseException], args: tuple[Any, ...], fields: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


def _loaded(link: bytes | None, text: str) -> BaseException:
    try:
        found: Any = None if link is None else pickle.loads(link)  # noqa: S301 - written by our own worker
    except Exception:
        found = None
    return found if isinstance(found, BaseException) else _stand_in(text)


def _stand_in(text: str) -> WorkerError:
    return WorkerError(f"a worker process raised {text}")
