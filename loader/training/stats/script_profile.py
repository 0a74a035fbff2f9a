"""Profile all loaders of a program that ``energon profile`` runs: it names a folder in the environment."""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from .profile import LoaderProfile

PROFILE_VARIABLE = "ENERGON_LOADER_PROFILE"
"""Environment variable ``<steps>:<folder>``: each loader of the process records so many steps."""

_numbers = count()


@dataclass(slots=True, kw_only=True)
class ScriptProfile:
    """The profile of one loader of a program.

    Attributes:
        folder: Where the trace and the statistics are written.
        steps: Number of steps of the trace.
        profile: The profile, once it has begun.
    """

    folder: Path
    steps: int
    profile: LoaderProfile | None = None

    @staticmethod
    def of_environment() -> ScriptProfile | None:
        """Return the profile that the environment requests; None if it requests none."""
        steps, separator, folder = os.environ.get(PROFILE_VARIABLE, "").partition(":")
        if not separator or not steps.isdecimal():
            return None
        return ScriptProfile(folder=Path(folder), steps=int(steps))

    def begin(self, make: Callable[[Path, int], LoaderProfile]) -> None:
        """Begin the profile with the first iteration, and finish it when the program ends.

        Args:
            make: Returns the profile that writes its trace to a path.
        """
        if self.profile is None:
            name = f"loader-{os.getpid()}-{next(_numbers)}"
            self.profile = make(self.folder / f"{name}.trace.json", self.steps)
            self.profile.__enter__()  # the program's end leaves it
            atexit.register(self._finish, self.folder / f"{name}.stats.json", os.getpid())

    def _finish(self, path: Path, pid: int) -> None:
        if self.profile is None or os.getpid() != pid:
            return  # a fork inherits the function
        self.profile.__exit__(None, None, None)
        stats = self.profile.stats
        if stats is not None and stats.steps:
            document = {"line": str(stats), "suggestions": stats.suggestions, **stats.to_dict()}
            path.write_text(json.dumps(document), encoding="utf-8")
