from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.metadataset.metadataset_files import MetadatasetFiles


@pytest.fixture
def files(tmp_path: Path) -> MetadatasetFiles:
    """A folder with the datasets a, b and c."""
    files = MetadatasetFiles(tmp_path)
    files.add_datasets("a", "b", "c")
    return files
