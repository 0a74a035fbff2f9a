"""Interrupts of endless loops on pages, as by a user."""

from __future__ import annotations

import _thread
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def interrupted(variables: dict[str, Any], name: str, values: int) -> Iterator[None]:
    """Interrupt an endless loop over the variable of this name after some values."""
    over = threading.Event()

    def watch() -> None:
        seen: list[Any] = []  # the values, not their ids: freed values leave their ids to later ones
        while len(seen) < values and not over.is_set():
            value = variables.get(name)
            if value is not None and all(value is not earlier for earlier in seen):
                seen.append(value)
            time.sleep(0.001)
        pause_s = 0.0
        while not over.wait(pause_s):
            _thread.interrupt_main()
            pause_s = 20  # Python drops an interrupt that arrives in a finalizer

    thread = threading.Thread(target=watch)
    gc.disable()  # an interrupt in a callback of the collector is dropped, and fails the test
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        over.set()
        gc.enable()
        thread.join()
