"""Search untrusted checkpoints for states in bounded time."""

from __future__ import annotations

from typing import Any

import pytest

from loader import StateError
from loader.training.states.found_states import find_states
from loader.training.states.run_state import RunState


def test_a_document_of_too_many_lists_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENERGON_MAX_DOCUMENT_BYTES", "64000")
    wide: list[Any] = [[] for _ in range(2000)]
    many: list[list[list[Any]]] = [[[] for _ in range(40)] for _ in range(40)]
    for document in (wide, many):
        with pytest.raises(StateError, match="expected a state of at most 1,000 values, found more"):
            find_states(document)
    assert find_states({"weights": [0.5] * 5000}) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_state_holds_no_number_that_json_cannot_represent(value: float) -> None:
    state = RunState(lanes=1, ranks=1, rank=0, seed=0, dataset=["read", {"weight": value}]).to_plain()
    with pytest.raises(StateError, match=f"it holds {value}"):
        find_states({"loader": state})
