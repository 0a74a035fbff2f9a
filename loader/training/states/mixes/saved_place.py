"""A place in the chain of a state: the states of the lanes there, and the share of its samples in the mix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ....pipeline.contract.lane import child_seed
from ....pipeline.contract.stage import State
from ..mix_history import MixChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlace:
    """A place in a chain, and the state of the run there.

    Attributes:
        lanes: The states of the lanes that have begun, as far as they are known here.
        scale: Number of lanes that have begun, for each of these.
        count: L of the run.
        changes: The earlier changes of the mix.
        seed: The seed of the stages here.
        path: The origins of the inputs of blends that lead here: ``"1/0/"``.
        before: The share of these samples in the mix of the state.
        after: The share in the mix of the run.
    """

    lanes: Mapping[int, State]
    scale: float
    count: int
    changes: MixChanges
    seed: int
    path: str = ""
    before: float = 1.0
    after: float = 1.0

    def child(self, key: str, origin: int, *, before: float, after: float) -> SavedPlace:
        """Return the place of an input of a blend."""
        return replace(
            self,
            lanes={lane: state.get(key, {}).get(str(origin), {}) for lane, state in self.lanes.items()},
            seed=child_seed(self.seed, origin),
            path=f"{self.path}{origin}/",
            before=self.before * before,
            after=self.after * after,
        )
