"""Each layout of data comes out as its right answer says, from a folder, a zip and a tar."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tests.layouts
from loader.accounting import Account
from loader.convert.importing import ImportPlan, PictureOptions, list_rows, run_import, write_trial
from loader.convert.sources import SourceOptions, open_sources
from loader.dataset.opening import folder_at
from loader.dataset.split_parts import samples_of_part
from loader.errors import EnergonError
from loader.format.documents import sample_type_of_name
from loader.inspect import choice_files, inspect_folder, open_choices, propose_choices
from tests.layouts.layout import LAYOUTS, Form, Layout, packed

for module in pkgutil.iter_modules(tests.layouts.__path__):
    if not module.name.startswith("test_"):
        importlib.import_module(f"tests.layouts.{module.name}")

CASES = [
    # Each layout in one form, and in each fourth turn in the others.
    pytest.param(layout, form, id=f"{name}-{form}", marks=() if at == 0 or turn % 4 == 0 else pytest.mark.slow)
    for turn, (name, layout) in enumerate(LAYOUTS.items())
    for at, form in enumerate(layout.forms)
]


@pytest.fixture
def fast_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Yield a folder in memory where the system has one, so that a dataset appears in milliseconds."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.mark.parametrize(("layout", "form"), CASES)
def test_a_layout_comes_out_as_it_should(layout: Layout, form: Form, fast_disk: Path) -> None:
    folder = fast_disk / "data"
    folder.mkdir()
    inner = layout.build(folder)
    source = packed(folder, form) if inner is None else folder / inner
    if layout.error is not None:
        with pytest.raises(EnergonError, match=layout.error):
            import_all(layout, source, fast_disk / "out")
        return
    sample_type, notes, account = import_all(layout, source, fast_disk / "out")
    samples, texts = contents_of_dataset(fast_disk / "out")
    assert samples == dict(layout.samples)
    account.check()
    entries = [*account.left_out, *account.failed]
    assert {f"{files_as(entry.unit)} {entry.reason}": entry.count for entry in entries} == dict(layout.left_out)
    assert sample_type == layout.sample_type
    assert layout.texts.items() <= texts.items()
    assert re.search(layout.note, "\n".join(notes))


def files_as(unit: str) -> str:
    """Return one name for files of a folder and members of an archive."""
    return "files" if unit == "members" else unit


def import_all(layout: Layout, source: Path, output: Path) -> tuple[str, tuple[str, ...], Account]:
    """Import a source with all proposals, as ``--yes`` does; failures are in the account."""
    sources = open_sources([str(source)], kind=layout.kind, options=SourceOptions(**layout.options))
    with list_rows(sources, shuffled=False) as listed, write_trial(listed, PictureOptions()) as trial:
        proposal = sources[0].proposal()
        settled: dict[str, Any] = {}
        if proposal is not None:
            spec = sample_type_of_name(proposal.sample_type)
            settled = {"spec": spec, "field_map": proposal.field_map or None}
        first = inspect_folder(trial)
        choices = propose_choices(open_choices(first, ask_split=False, **settled))
        files = choice_files(first, choices, name="dataset.yaml")
        plan = ImportPlan(sources=sources, output=str(output), max_failures=100, files=files)
        report = run_import(plan, listed=listed)
        assert choices.dataset_yaml is not None
        return choices.dataset_yaml.spec.name, listed.notes, report.account


def contents_of_dataset(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parts of each sample, as in :class:`Layout`, and the contents of each part as text."""
    folder = folder_at(str(path))
    splits = {
        number: name
        for name in (folder.documents.split.split_parts if folder.documents.split else ())
        for samples in samples_of_part(folder, name)
        for number in samples
    }
    has_splits = len({*splits.values()}) > 1
    samples: dict[str, str] = {}
    texts: dict[str, str] = {}
    for number in range(len(folder.index)):
        key = folder.index.key(number)
        parts = dict(folder.read_parts(number))
        split = f"{splits.get(number, '-')}: " if has_splits else ""
        samples[key] = split + " ".join(sorted(parts))
        texts |= {f"{key}.{name}": bytes(data).decode("utf-8", "replace") for name, data in parts.items()}
    folder.close()
    return samples, texts
