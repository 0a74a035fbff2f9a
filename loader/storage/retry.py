"""Repeat file operations that a disk or a network file system refuses, which may succeed a moment later."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TypeVar

from ..escaped_log import get_logger
from .protocol import raise_storage_error

PAUSES_S = (0.1, 0.5, 2.0)
"""Pauses before the repetitions of a failed operation, in seconds."""

_PASSING = frozenset({errno.EIO, errno.EREMOTEIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN})

_log = get_logger(__name__)

T = TypeVar("T")


def retry(attempt: Callable[[OSError], T], error: OSError, *, action: str, path: str) -> T:  # noqa: RET503 - the last line raises
    """Repeat a failed operation after each of :data:`PAUSES_S`, until it succeeds.

    Only faults of a disk or a network that may pass are repeated, not a missing file or a missing permission.

    Args:
        attempt: The operation; its argument is the error of the last attempt.
        error: The error of the first attempt.
        action: Name of the operation, for the log and the error.
        path: The file, for both.

    Raises:
        StorageError: The last attempt failed, too.
    """
    for pause_s in PAUSES_S:
        if error.errno not in _PASSING:
            break
        _log.warning("cannot %s: %s; trying again in %g s: %s", action, error.strerror, pause_s, path)
        time.sleep(pause_s)
        try:
            return attempt(error)
        except OSError as another:
            error = another
    raise_storage_error(action, path, error)
