"""The metadatasets in the documentation are valid."""

from __future__ import annotations

import re

import pytest

from loader.metadataset.documents.parse import parse_metadataset
from tests.source_tree import ROOT

PAGES = ("how-to/blend-datasets.md", "how-to/filter-samples.md", "reference/metadataset.md")
BLOCKS = [
    (page, block)
    for page in PAGES
    for block in re.findall(
        r"^```yaml[^\n]*\n(.*?)^```", (ROOT / "docs" / page).read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
]


@pytest.mark.parametrize(("page", "block"), BLOCKS, ids=[f"{page}-{at}" for at, (page, _) in enumerate(BLOCKS)])
def test_metadatasets_in_the_documentation_have_no_faults(page: str, block: str) -> None:
    assert parse_metadataset(block, file=page)[1] == []


def test_the_documentation_has_metadatasets() -> None:
    assert len(BLOCKS) >= 9
