"""Micro-batches that do not pickle."""

from __future__ import annotations

import threading
from pickle import PicklingError
from types import SimpleNamespace
from typing import Any

import pytest

from loader.training.workers.running_lane import pickle_object
from loader.transport.message import ObjectPickler

KEYS = ["a.tar/0", "a.tar/1", "a.tar/2"]
BATCHES: dict[str, Any] = {
    "list": [{"__key__": key, "x": threading.Lock() if key.endswith("1") else 1} for key in KEYS],
    "dict": {"__key__": KEYS, "x": [1, threading.Lock(), 3], "y": [1, 2]},
    "object": SimpleNamespace(__key__=KEYS, x=[1, {"deep": lambda: 1}, 3]),
}


@pytest.mark.parametrize("form", BATCHES)
def test_the_sample_of_a_batch_is_named_whose_value_does_not_pickle(form: str) -> None:
    with pytest.raises(PicklingError, match=r"pickle .*, in the sample a.tar/1$"):
        pickle_object(ObjectPickler(), BATCHES[form])


def test_a_batch_whose_own_fault_it_is_keeps_its_error() -> None:
    with pytest.raises(TypeError, match=r"cannot pickle '_thread.lock' object$"):
        pickle_object(ObjectPickler(), {"__key__": KEYS, "lock": threading.Lock()})
