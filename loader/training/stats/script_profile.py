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
        profile: The profile, while it runs.
    """

    folder: Path
    steps: int
    profile: LoaderProfile | None = None
    _stats: Path | None = None
    _pid: int = 0

    @staticmethod
    def of_environment() -> ScriptProfile | None:
        """Return the profile that the environment requests; None if it requests none."""
        steps, separator, folder = os.environ.get(PROFILE_VARIABLE, "").partition(":")
        if not separator or not steps.isdecimal():
            return None
        return ScriptProfile(folder=Path(folder), steps=int(steps))

    def begin(self, make: Callable[[Path, int], LoaderProfile]) -> None:
        """Begin the profile with the first iteration, and end it with the program at the latest.

        Args:
            make: Returns the profile that writes its trace to a path.
        """
        if self.profile is None:
            name = f"loader-{os.getpid()}-{next(_numbers)}"
            self.profile = make(self.folder / f"{name}.trace.json", self.steps)
            self.profile.__enter__()  # end() leaves it
            self._stats, self._pid = self.folder / f"{name}.stats.json", os.getpid()
            atexit.register(self.end)

    def end(self) -> None:
        """End the profile, if it runs, and write its statistics; the next iteration may begin another one."""
        profile, self.profile = self.profile, None
        if profile is None or self._stats is None or os.getpid() != self._pid:
            return  # a fork inherits the function
        profile.__exit__(None, None, None)
        stats = profile.stats
        if stats is not None and stats.steps:
            document = {"line": str(stats), "suggestions": stats.suggestions, **stats.to_dict()}
            self._stats.write_text(json.dumps(document), encoding="utf-8")
