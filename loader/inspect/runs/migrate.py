"""Change the mix of datasets of a saved run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import StateError
from ...samples.encoding.task_encoder import TaskEncoder
from ...training.states import (
    ENDLESS,
    Redistributed,
    RunState,
    StateFile,
    continue_mix,
    merge_states,
    rewrite_files,
)
from .migrated_chain import has_buffers, migrated_chain
from .planned_run import PlannedRun
from .saved_identity import request_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedRun:
    """The result of :func:`migrate_files`.

    Attributes:
        leaves: For each dataset, what becomes of it: ``"/data/coco, train: continues at 41 % of epoch 2"``; empty if
            the mix did not change.
        written: The new files.
        warnings: Doubts that the states are of the run that continues.
    """

    leaves: tuple[str, ...]
    written: Redistributed
    warnings: tuple[str, ...] = ()


def migrate_files(
    files: Sequence[StateFile],
    dataset: str,
    folder: str | os.PathLike[str],
    *,
    trust_code: bool = False,
    overwrite: bool = False,
    task_encoder: TaskEncoder[Any, Any, Any, Any] | None = None,
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
        task_encoder: The hooks of the run. Only changes between shares of samples and of volumes may need them.

    Raises:
        ConfigError: A document is invalid.
        StateError: The states are not those of all ranks of one run without end, or the run cannot continue exactly
            with this mix.
        StorageError: A file or dataset cannot be read, or a file exists or cannot be written.
    """
    leaves: list[str] = []
    warnings: list[str] = []

    def convert(states: Sequence[RunState]) -> list[RunState]:
        run = merge_states(states, lockstep=True)
        if not _is_known_mix(run.dataset):
            raise StateError(
                "the datasets of this run are mixed by a chain that the program composed",
                hint="pass allow_mix_change=True to the call that restores the state in the program instead",
            )
        planned = PlannedRun(request_of(run, dataset, trust_code=trust_code, task_encoder=task_encoder))
        chain = migrated_chain(run.dataset, planned)
        chain.begin_on(run.first_ranks)
        mix = continue_mix(chain, run, kind=ENDLESS, lanes=run.lane_states, allowed=True)
        if mix.new_lanes is not None and task_encoder is None and any(map(has_buffers, run.lane_states.values())):
            raise StateError(
                "lanes of this run buffer samples, and the states of buffers are those of stages of the program",
                hint="pass --task-encoder module:Class with the hooks of the run; or pass allow_mix_change=True to the "
                "call that restores the state in the program",
            )
        mix.check(replace(run, lane_states=mix.states_of(run.lane_states)))
        leaves[:] = mix.lines()
        warnings[:] = [] if mix.warning is None else [mix.warning]
        identity = chain.identity()
        return [
            replace(state, dataset=identity, mix_changes=mix.changes, lane_states=mix.states_of(state.lane_states))
            for state in states
        ]

    written = rewrite_files(files, convert, folder, overwrite=overwrite)
    return MigratedRun(leaves=tuple(leaves), written=written, warnings=tuple(warnings))


def _is_known_mix(identity: Any) -> bool:
    """Return True if a chain has one reader, or blends that a metadataset defines above its readers."""
    if identity[0] == "read":
        return True
    inputs = identity[2:]
    return (len(inputs) == 1 or identity[0] == "blend") and all(map(_is_known_mix, inputs))
