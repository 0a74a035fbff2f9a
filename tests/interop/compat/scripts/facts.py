"""Collect what a script observed, and print it as one JSON object for the comparison."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Facts", "digest"]


class Facts:
    """Named observations of one library.

    A script creates one, decorates a function for each fact, and prints them at its end::

        facts = Facts()

        @facts.add
        def first_caption() -> str: ...

        facts.report()

    A function that raises is recorded as the error's class, so that the other facts are still compared.
    """

    def __init__(self) -> None:
        self.folder = Path(sys.argv[1])
        self._values: dict[str, Any] = {}
        self._errors: dict[str, str] = {}

    def add(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """Record the result of a function under its name."""
        name = function.__name__
        try:
            self._values[name] = function()
        except Exception as error:  # noqa: BLE001 - an error is an observation, too
            self._values[name] = f"raised {type(error).__name__}"
            self._errors[name] = f"{type(error).__name__}: {error}"[:2000]
        return function

    def report(self) -> None:
        """Print the facts as the last line of standard output."""
        print(json.dumps({"facts": self._values, "errors": self._errors}), flush=True)


def digest(data: Any) -> str:
    """Return a short digest of a tensor, an array, bytes or text."""
    if hasattr(data, "numpy"):
        data = data.contiguous().numpy()
    shape = tuple(data.shape) if hasattr(data, "shape") else ()
    content = data.tobytes() if hasattr(data, "tobytes") else data if isinstance(data, bytes) else str(data).encode()
    return f"{shape} {hashlib.sha256(content).hexdigest()[:16]}"
