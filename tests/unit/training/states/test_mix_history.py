"""The changes of a mix in states: they are checked, merged and distributed to ranks."""

from __future__ import annotations

from typing import Any

import pytest

from loader.errors import StateError
from loader.order import Mix
from loader.training.states import RunState
from loader.training.states.mix_history import merge_mix_changes, reader_history, stage_changes
from loader.training.states.run_state import redistribute_states
from tests.elastic_runs import sealed

LANES = 4


def changes(*lanes: int) -> list[dict[str, Any]]:
    """Return the changes as a rank of some lanes knows them: two of a reader, one of a blend."""
    first = {"weights": [2.0, 1.0], "origins": [2, 0], "next": 3, "lanes": {str(lane): 10 + lane for lane in lanes}}
    second = {"weights": [1.0, 5.0], "origins": [0], "next": 3, "lanes": {str(lane): 30 + lane for lane in lanes}}
    return [
        {"batch": 8, "leaves": [], "stages": {"0 read": first, "5 blend": {"origins": [1], "next": 2}}},
        {"batch": 16, "leaves": [], "stages": {"0 read": second}},
    ]


def state(rank: int, **more: Any) -> RunState:
    lanes = (rank, rank + 2)
    plain = RunState(
        lanes=LANES,
        ranks=2,
        rank=rank,
        seed=0,
        batch=20,
        kind="endless",
        lane_states={lane: {"0 read": 40} for lane in lanes},
        mix_changes=changes(*lanes),
    ).to_plain()
    return RunState.from_plain(sealed({**plain, **more}))


def test_only_a_state_with_changes_has_their_key() -> None:
    assert "mix_changes" in state(0).to_plain()
    assert "mix_changes" not in RunState(lanes=1, ranks=1, rank=0, seed=0).to_plain()


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_all_ranks_of_a_redistributed_run_know_all_lanes(ranks: int) -> None:
    for found in redistribute_states([state(0), state(1)], ranks):
        assert found.mix_changes == merge_mix_changes([changes(0, 1, 2, 3)])


def test_the_history_of_a_reader_has_the_mixes_that_ended() -> None:
    history = reader_history(stage_changes(changes(1), "0 read"))
    assert history is not None
    assert history.earlier == (Mix((0, 1), (2.0, 1.0)), Mix((2, 0), (1.0, 5.0)))
    assert (history.origins, history.ends_of(1)) == ((0,), (11, 31))
    assert reader_history(stage_changes(changes(1), "1/0 read")) is None


def test_changes_of_different_runs_are_not_merged() -> None:
    other = changes(1, 3)
    other[1]["batch"] = 15
    with pytest.raises(StateError, match="'mix_changes' differ"):
        merge_mix_changes([changes(0, 2), other])
    with pytest.raises(StateError, match="'mix_changes' differ"):
        merge_mix_changes([changes(0, 2), changes(1, 3)[:1]])
