"""Run a function of a program or notebook over the samples of an opened dataset."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from ..arrays import IntArray
from ..engine import Engine
from ..errors import ConfigError
from ..mapping import MapProgress, MapReport, MapRequest, given_function, named_function, output_of, run_map
from ..pipeline.reading.dataset_source import WholeDataset
from ..pipeline.reading.source import Source

Engines = Engine | Executor | None


def map_samples(
    source: Source,
    samples: IntArray | None,
    function: Callable[..., Any] | str,
    *,
    write: str | Sequence[str],
    to_filter: str | None,
    to_parts: str | os.PathLike[str] | None,
    to_dataset: str | os.PathLike[str] | None,
    include_excluded: bool,
    workers: int,
    engine: Engines,
    version: str,
    on_progress: Callable[[MapProgress], None] | None,
    **options: Any,
) -> MapReport:
    """Run a function over samples of a dataset; see :meth:`.OpenedDataset.map`.

    Args:
        samples: Numbers of the samples, ascending; None for all.
        **options: Further attributes of :class:`.MapRequest`.
    """
    if not isinstance(source, WholeDataset) or source.folder.traits.is_file:
        raise ConfigError(
            "expected the folder of a prepared dataset", at=source.first.path, hint="open each dataset of a mix"
        )
    # Leave excluded samples out.
    folder, excluded = source.folder, source.excluded
    if not include_excluded and len(excluded):
        every = np.arange(len(folder.index)) if samples is None else samples
        samples = np.setdiff1d(every, excluded, assume_unique=True)
    output, target = output_of(
        folder.ref,
        write=(write,) if isinstance(write, str) and write else tuple(write),
        to_filter=to_filter,
        to_parts=None if to_parts is None else os.fspath(to_parts),
        to_dataset=None if to_dataset is None else os.fspath(to_dataset),
    )
    if not isinstance(engine, Engine):
        engine = Engine(workers=workers, executor=engine)
    request = MapRequest(
        source=source,
        function=(
            named_function(function, folder=os.getcwd(), version=version)
            if isinstance(function, str)
            else given_function(function, version=version)
        ),
        output=output,
        target=target,
        samples=None if samples is None or len(samples) == len(folder.index) else samples,
        engine=engine,
        **options,
    )
    return run_map(request, on_progress=on_progress)
