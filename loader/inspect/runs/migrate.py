"""Change the mix of datasets of a saved run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...training.states import (
    ENDLESS,
    Redistributed,
    RunState,
    StateFile,
    continue_mix,
    merge_states,
    rewrite_files,
)
from .planned_run import PlannedRun
from .restored_run import read_stage, request_of

__all__ = ["MigratedRun", "migrate_files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedRun:
    """The result of :func:`migrate_files`.

    Attributes:
        leaves: For each dataset, what becomes of it: ``"/data/coco, train: continues at 41 % of epoch 2"``; empty if
            the mix did not change.
        written: The new files.
    """

    leaves: tuple[str, ...]
    written: Redistributed


def migrate_files(
    files: Sequence[StateFile],
    dataset: str,
    folder: str | os.PathLike[str],
    *,
    trust_code: bool = False,
    overwrite: bool = False,
) -> MigratedRun:
    """Write the states of a run so that they continue with another mix of datasets.

    The new states restore as those of a run that was trained with the edited documents: no call has to allow the
    change. A dataset that stays neither repeats nor skips a sample.

    Args:
        files: The states of all ranks.
        dataset: The edited metadataset, or a dataset.
        folder: The folder to write to; created if missing.
        trust_code: The datasets may run their code.
        overwrite: Replace existing files.

    Raises:
        ConfigError: A document is invalid.
        StateError: The states are not those of all ranks of one run without end, or the run cannot continue exactly
            with this mix.
        StorageError: A file or dataset cannot be read, or a file exists or cannot be written.
    """
    leaves: list[str] = []

    def convert(states: Sequence[RunState]) -> list[RunState]:
        run = merge_states(states, lockstep=True)
        reader = PlannedRun(request_of(run, dataset, trust_code=trust_code, task_encoder=None)).reader
        reader.begin_on(run.first_ranks)
        saved = replace(run, dataset=read_stage(run.dataset))
        mix = continue_mix(reader, saved, kind=ENDLESS, lanes=run.lane_states, allowed=True)
        mix.check(saved)
        leaves[:] = mix.lines()
        chain = _with_reader(run.dataset, reader.identity())
        return [replace(state, dataset=chain, mix_changes=mix.changes) for state in states]

    written = rewrite_files(files, convert, folder, overwrite=overwrite)
    return MigratedRun(leaves=tuple(leaves), written=written)


def _with_reader(identity: Any, reader: list[Any]) -> Any:
    """Return the description of a chain with that of its reader replaced."""
    if not isinstance(identity, list | tuple) or not identity:
        return identity
    return reader if identity[0] == "read" else [_with_reader(part, reader) for part in identity]
