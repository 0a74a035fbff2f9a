"""Collect what a script observed, and print it as one JSON object for the comparison."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Facts", "digest", "one_process"]


class Facts:
    """Named observations of one library.

    A script creates one, decorates a function for each fact, and prints them at its end::

        facts = Facts()

        @facts.add
        def first_caption() -> str: ...

        facts.report()

    A function that raises is recorded as the error's class, so that the other facts are still compared.
    """

    def __init__(self) -> None:
        self.folder = Path(sys.argv[1])
        self._values: dict[str, Any] = {}
        self._errors: dict[str, str] = {}

    def add(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """Record the result of a function under its name."""
        name = function.__name__
        try:
            self._values[name] = function()
        except Exception as error:  # noqa: BLE001 - an error is an observation, too
            self._values[name] = f"raised {type(error).__name__}"
            self._errors[name] = f"{type(error).__name__}: {error}"[:2000]
        return function

    def validation(self, path: str, batch_size: int | None = None, config: Any = None, **options: Any) -> list[Any]:
        """Return the samples or batches of a pass over a dataset, without workers."""
        from megatron.energon import get_savable_loader, get_val_dataset

        dataset = get_val_dataset(
            self.folder / path, batch_size=batch_size, worker_config=config or one_process(), **options
        )
        return list(get_savable_loader(dataset))

    def report(self) -> None:
        """Print the facts as the last line of standard output."""
        print(json.dumps({"facts": self._values, "errors": self._errors}), flush=True)


def one_process(**options: Any) -> Any:
    """Return the config of a run of one rank without workers."""
    from megatron.energon import WorkerConfig

    return WorkerConfig(rank=0, world_size=1, num_workers=0, **options)


def digest(data: Any) -> str:
    """Return a short digest of a tensor, an array, bytes or text."""
    if hasattr(data, "numpy"):
        data = data.contiguous().numpy()
    shape = tuple(data.shape) if hasattr(data, "shape") else ()
    content = data.tobytes() if hasattr(data, "tobytes") else data if isinstance(data, bytes) else str(data).encode()
    return f"{shape} {hashlib.sha256(content).hexdigest()[:16]}"
