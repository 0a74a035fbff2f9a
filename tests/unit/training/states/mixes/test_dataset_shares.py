"""The shares of datasets in a saved state are the products of the weights above them, also while these change."""

from __future__ import annotations

from typing import Any

import pytest

from loader.training.states.describe import described_datasets

A, B, C = ({"path": f"/{name}", "samples": 5} for name in "abc")
AT_10 = {"unit": "steps", "starts": [0, 10], "weights": [[3, 1], 1]}
AT_20 = {"unit": "steps", "starts": [0, 20], "weights": [1, [3, 1]]}

CHAINS: dict[str, tuple[Any, list[str]]] = {
    "one": (["read", {"weights": 5}, A], ["1"]),
    "equal": (["read", {"weights": 2}, A, B], ["0.5", "0.5"]),
    "nested": (
        ["blend", {"weights": [3, 1]}, ["read", {"weights": [1, 3]}, A, B], ["read", {}, C]],
        ["0.188", "0.562", "0.25"],
    ),
    "above": (
        ["blend", {"weights": [3, 1], "schedule": AT_10}, ["read", {"weights": [1, 3]}, A, B], ["read", {}, C]],
        ["0.188, 0.125 from step 10", "0.562, 0.375 from step 10", "0.25, 0.5 from step 10"],
    ),
    "below": (
        ["blend", {"weights": [3, 1]}, ["read", {"schedule": AT_20}, A, B], ["read", {}, C]],
        ["0.188, 0.375 from step 20", "0.562, 0.375 from step 20", "0.25"],
    ),
    "both": (
        ["blend", {"weights": [3, 1], "schedule": AT_10}, ["read", {"schedule": AT_20}, A, B], ["read", {}, C]],
        [
            "0.188, 0.125 from step 10, 0.25 from step 20",
            "0.562, 0.375 from step 10, 0.25 from step 20",
            "0.25, 0.5 from step 10",
        ],
    ),
}


@pytest.mark.parametrize(("chain", "expected"), CHAINS.values(), ids=CHAINS)
def test_shares_are_products_of_the_weights_above(chain: Any, expected: list[str]) -> None:
    found = described_datasets(["batch", {"batch_size": 4}, chain])
    assert [one["schedule"] or f"{one['share']:.3g}" for one in found] == expected


def test_members_of_a_join_have_no_shares_of_their_own() -> None:
    (found,) = described_datasets(["read", {}, {**A, "members": [B, C]}])
    assert found["share"] == 1
    assert [(one["path"], one["share"]) for one in found["members"]] == [("/b", None), ("/c", None)]
