"""Change the mix of datasets of a saved run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from ...errors import StateError
from ...pipeline.contract.stage import Running, SavableDataset, State
from ...pipeline.reading.read import ReadDataset
from ...pipeline.stages.blend import BlendDataset
from ...samples.encoding.task_encoder import TaskEncoder
from ...training.datasets.chain import UnknownSize
from ...training.states import ENDLESS, Redistributed, RunState, StateFile, continue_mix, merge_states, rewrite_files
from ...training.states.mixes.begun import begin_as
from ...training.states.mixes.change import check_units
from .planned_run import PlannedRun, request_of

_OWN_DEPTH = ("preencode_sample", "postencode_sample")  # without packing, these have the depth of the stage below
_PACKS = "select_samples_to_pack"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedRun:
    """The result of :func:`migrate_files`.

    Attributes:
        leaves: For each dataset, what becomes of it: ``"/data/coco, train: continues at 41 % of epoch 2"``; empty if
            the mix did not change.
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

    The new states restore as if the run was trained with the edited documents: no call has to allow the change. A
    dataset that stays neither repeats nor skips a sample.

    Args:
        folder: The folder to write to; created if missing.
    """
    # Convert the states of all ranks together.
    leaves: list[str] = []
    warnings: list[str] = []

    def convert(states: Sequence[RunState]) -> list[RunState]:
        # The ranks have to be at one micro-batch, because the mix changes at one point of the run.
        run = merge_states(states, lockstep=True)
        if not _is_known_mix(run.dataset):
            raise StateError(
                "the datasets of this run are mixed by a chain that the program composed",
                hint="pass allow_mix_change=True to the call that restores the state in the program instead",
            )
        # Plan the run with the new mix, and continue it from the states.
        planned = PlannedRun(request_of(run, dataset, trust_code=trust_code, task_encoder=task_encoder))
        chain = migrated_chain(run.dataset, planned)
        begin_as(chain, run)
        mix = continue_mix(chain, run, kind=ENDLESS, lanes=run.lane_states, allowed=True)
        mix.check(run)
        leaves[:] = mix.lines()
        warnings[:] = [] if mix.warning is None else [mix.warning]
        identity = chain.identity()
        return [replace(state, dataset=identity, mix_changes=mix.changes) for state in states]

    # Write them.
    written = rewrite_files(files, convert, folder, protected=() if overwrite else None)
    return MigratedRun(leaves=tuple(leaves), written=written, warnings=tuple(warnings))


def _is_known_mix(identity: Any) -> bool:
    """Return True if a chain has one reader, or blends that a metadataset defines above its readers."""
    if identity[0] == "read":
        return True
    inputs = identity[2:]
    return (len(inputs) == 1 or identity[0] == "blend") and all(map(_is_known_mix, inputs))


class _SavedStage(SavableDataset[Any]):
    """A stage that is known by its name and settings only, so it cannot be opened."""

    def __init__(self, below: SavableDataset[Any], name: str, settings: Mapping[str, Any], *, packs: bool) -> None:
        super().__init__(below, name=name)
        self._settings = dict(settings)
        if name in _OWN_DEPTH and not packs:
            self.depth = below.depth

    def settings(self) -> dict[str, Any]:
        return self._settings

    def open(self, lane: Any, state: State) -> Running:
        raise NotImplementedError(f"the stage {self.name!r} is only described")


def migrated_chain(saved: Any, planned: PlannedRun) -> SavableDataset[Any]:
    """Return the chain of a run with the mix of another one.

    Args:
        planned: The run with the new mix; with the hooks of the run if its request has them.
    """
    # With the hooks of the run, only stages above the planned ones are missing.
    stages = _stages_of(saved)
    if planned.request.task_encoder is not None:
        above = stages[: len(stages) - len(_stages_of(planned.chain.identity()))]
        return _lifted(planned.chain, list(reversed(above)), packs=_packs(stages))
    # Otherwise put the saved stages on the new blends, each as far up as it was.
    saved_levels, from_reader, packs = dict(_levels(saved)), [*reversed(stages)], _packs(stages)

    def build(stage: SavableDataset[Any]) -> tuple[SavableDataset[Any], int]:
        """Return a blend or reader, and the number of stages below it that are no blends; 0 for a reader."""
        while not isinstance(stage, BlendDataset | ReadDataset):
            [stage] = stage.inputs
        if isinstance(stage, ReadDataset):
            return stage, 0
        # A blend counts a metric above the stage that computes it, so its inputs get the stages up to there.
        inputs = [build(upstream) for upstream in stage.inputs]
        level = max(below for _, below in inputs)
        if stage.unit not in (None, "samples"):
            level = saved_levels[stage.unit] if stage.unit in saved_levels else _level_of_new(stage, saved, planned)
        blend = copy(stage)
        blend.inputs = tuple(_lifted(upstream, from_reader[below:level], packs=packs) for upstream, below in inputs)
        blend.depth = max(upstream.depth for upstream in blend.inputs)
        return blend, level

    root, level = build(planned.chain)
    return _lifted(root, from_reader[level:], packs=packs)


def _level_of_new(blend: BlendDataset[Any], saved: Any, planned: PlannedRun) -> int:
    """Return the number of stages below a blend whose unit the state does not have: it counts columns of readers."""
    if isinstance(blend.size, UnknownSize):
        check_units(saved, planned.chain.identity(), None)
        raise StateError(
            f"the state does not tell where the unit {blend.unit!r} of the new mix is counted, and it is not a column "
            "of all its datasets",
            hint="pass --task-encoder module:Class with the hooks of the run, which have the metric; or pass "
            "allow_mix_change=True to the call that restores the state in the program",
        )
    return 0


def _lifted(
    stage: SavableDataset[Any], stages: Sequence[tuple[str, Mapping[str, Any]]], *, packs: bool
) -> SavableDataset[Any]:
    for name, settings in stages:
        stage = _SavedStage(stage, name, settings, packs=packs)
    return stage


def _packs(stages: Sequence[tuple[str, Mapping[str, Any]]]) -> bool:
    return any(name == _PACKS for name, _ in stages)


def _stages_of(identity: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the stages of a chain without its blends and readers, the outermost first; of inputs, the first."""
    stages = []
    while identity[0] != "read":
        if identity[0] != "blend":
            stages.append((identity[0], identity[1]))
        identity = identity[2]
    return stages


def _levels(identity: Any) -> Iterator[tuple[str, int]]:
    """Yield the units of blends, and the number of stages below each."""
    if identity[0] == "read":
        return
    unit = identity[1].get("unit") if identity[0] == "blend" else None
    if unit is not None:
        yield unit, len(_stages_of(identity))
    for inner in identity[2:]:
        yield from _levels(inner)
