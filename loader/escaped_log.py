"""Loggers whose records have no characters that a terminal would interpret, and no queries of URLs."""

from __future__ import annotations

import logging
import traceback

from .errors import escape_controls, hide_secrets
from .own_names import canonical_name

_KEPT = "\n\t"


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a module's name, which escapes keys, paths and captions in messages and tracebacks.

    Records without such characters are not changed.
    """
    logger = logging.getLogger(canonical_name(name))
    if _escape not in logger.filters:
        logger.addFilter(_escape)
    return logger


def _escape(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    escaped = hide_secrets(escape_controls(message, keep=_KEPT))
    if escaped != message:
        record.msg, record.args = escaped, None
    if record.exc_info and record.exc_info[1] is not None and not record.exc_text:
        trace = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
        escaped = hide_secrets(escape_controls(trace, keep=_KEPT))
        if escaped != trace:
            record.exc_text = escaped  # formatters print it in place of the exception
    return True
