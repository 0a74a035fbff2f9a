"""The chain of a saved run with another mix of datasets: stages as the state describes them, above planned readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any

from ...errors import StateError
from ...pipeline.contract.stage import Running, SavableDataset, State
from ...pipeline.reading.read import ReadDataset
from ...pipeline.stages.blend import BlendDataset
from ...training.datasets.volume_units import UnknownSize
from .planned_run import PlannedRun

_OWN_DEPTH = ("preencode_sample", "postencode_sample")  # without packing, these have the depth of the stage below
_PACKS = "select_samples_to_pack"


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
        saved: The description of the chain in a state.
        planned: The run with the new mix; with the hooks of the run if its request has them.

    Raises:
        StateError: The state has other stages than the hooks make; or it does not tell where a unit of the new mix is
            counted.
    """
    stages = _stages_of(saved)
    if planned.request.task_encoder is not None:
        own = _stages_of(planned.chain.identity())
        above = stages[: len(stages) - len(own)]
        return _lifted(planned.chain, list(reversed(above)), packs=_packs(stages))
    return _Builder(saved, stages).whole(planned.chain)


def has_buffers(state: Mapping[str, Any]) -> bool:
    """Return True if a lane's state has more than positions and volumes."""
    for key, value in state.items():
        if key.endswith(" blend"):
            if any(has_buffers(inner) for number, inner in value.items() if number.isdecimal()):
                return True
        elif key not in ("made", "0 read"):
            return True
    return False


class _Builder:
    """Builds the chain without hooks, from the stages of a state.

    Args:
        saved: The description of the chain in the state.
        stages: Its stages without blends, the outermost first.
    """

    def __init__(self, saved: Any, stages: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        self._stages = [*reversed(stages)]  # from the reader
        self._packs = _packs(stages)
        self._levels = dict(_levels(saved))

    def whole(self, chain: SavableDataset[Any]) -> SavableDataset[Any]:
        """Return the whole chain above the readers and blends of another one."""
        root, level = self._build(chain)
        return self._lift(root, level, len(self._stages))

    def _lift(self, stage: SavableDataset[Any], level: int, to: int) -> SavableDataset[Any]:
        return _lifted(stage, self._stages[level:to], packs=self._packs)

    def _build(self, stage: SavableDataset[Any]) -> tuple[SavableDataset[Any], int]:
        """Return a blend or reader, and the number of stages below it that are no blends; 0 for a reader."""
        while not isinstance(stage, BlendDataset | ReadDataset):
            [stage] = stage.inputs
        if isinstance(stage, ReadDataset):
            return stage, 0
        inputs = [self._build(upstream) for upstream in stage.inputs]
        level = max(below for _, below in inputs)
        if stage.unit not in (None, "samples"):
            level = self._level(stage)
        blend = copy(stage)
        blend.inputs = tuple(self._lift(upstream, below, level) for upstream, below in inputs)
        blend.depth = max(upstream.depth for upstream in blend.inputs)
        return blend, level

    def _level(self, blend: BlendDataset[Any]) -> int:
        """Return the number of stages below a blend, as the state has it for the unit.

        Raises:
            StateError: The unit is new, and no column of the datasets.
        """
        if blend.unit in self._levels:
            return self._levels[blend.unit]
        if isinstance(blend.size, UnknownSize):
            raise StateError(
                f"the state does not tell where the unit {blend.unit!r} of the new mix is counted, and it is no column "
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
    found = []
    while identity[0] != "read":
        if identity[0] != "blend":
            found.append((identity[0], identity[1]))
        identity = identity[2]
    return found


def _levels(identity: Any) -> Iterator[tuple[str, int]]:
    """Yield the units of blends, and the number of stages below each."""
    if identity[0] == "read":
        return
    unit = identity[1].get("unit") if identity[0] == "blend" else None
    if unit is not None:
        yield unit, len(_stages_of(identity))
    for inner in identity[2:]:
        yield from _levels(inner)
