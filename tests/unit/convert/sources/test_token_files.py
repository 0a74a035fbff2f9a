"""Token files become samples with an array each."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from loader.convert.importing.plan import ImportPlan
from loader.convert.importing.run import run_import
from loader.convert.sources.detect import open_source
from loader.convert.tables.source_options import SourceOptions
from tests.token_files import numbered, write_tokens
from tests.unit.convert.importing.test_run import samples_of


def test_sequences_come_back(tmp_path: Path) -> None:
    sequences = numbered(11)
    path = write_tokens(tmp_path / "tokens", sequences)
    source = open_source(str(path), kind=None, options=SourceOptions())
    run_import(ImportPlan(sources=(source,), output=str(tmp_path / "out")))
    samples = samples_of(tmp_path / "out")
    assert [*samples] == [f"{number:02d}" for number in range(11)]
    found = [np.load(io.BytesIO(parts["npy"])) for parts in samples.values()]
    assert [array.tolist() for array in found] == sequences
    assert found[0].dtype == np.uint16
