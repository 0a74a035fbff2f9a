"""Environment variables in the paths of a metadataset: ``${VAR}`` and ``${VAR:default}``."""

from __future__ import annotations

import os
import re

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::([^{}]*))?\}")


def expand_variables(path: str) -> str:
    """Replace the environment variables in a path. A variable without value and default stays as written.

    >>> expand_variables("${NO_SUCH_VARIABLE:/data}/coco"), expand_variables("$HOME/a b")
    ('/data/coco', '$HOME/a b')
    """
    return _VARIABLE.sub(_value, path) if "${" in path else path


def unset_variables(path: str) -> list[str]:
    """Return the names of the variables in a path that have neither a value nor a default.

    >>> unset_variables("${NO_SUCH_VARIABLE}/coco"), unset_variables("${NO_SUCH_VARIABLE:}/coco")
    (['NO_SUCH_VARIABLE'], [])
    """
    found = _VARIABLE.finditer(path) if "${" in path else ()
    return [match[1] for match in found if match[2] is None and match[1] not in os.environ]


def _value(match: re.Match[str]) -> str:
    value: str = os.environ.get(match[1], match[0] if match[2] is None else match[2])
    return value
