"""A package adds a kind of source, as a page shows; damaged packages are named."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from energon_cli.main import main
from loader import open_dataset
from loader.convert.sources import SourceOptions, open_source
from loader.errors import ConfigError
from loader.extensions import extension_names, load_extension
from tests.installed_package import install
from tests.source_tree import ROOT

PAGE = ROOT / "docs" / "how-to" / "write-a-source.md"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the installed package of the page."""
    return install(PAGE, tmp_path_factory.mktemp("package"))


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(site)
    yield
    sys.modules.pop("npz_source", None)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    np.savez(tmp_path / "digits.npz", image=np.arange(48, dtype=np.uint8).reshape(3, 4, 4), label=np.arange(3))
    return tmp_path / "digits.npz"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_files_are_imported_by_their_ending(archive: Path, tmp_path: Path, workers: str) -> None:
    assert main(["import", str(archive), str(tmp_path / "out"), "--yes", "--num-workers", workers]) == 0
    samples = open_dataset(tmp_path / "out")
    rows = [{name: np.load(BytesIO(data)) for name, data in samples.parts(n).items()} for n in range(3)]
    assert sorted((int(row["label.npy"]), int(row["image.npy"][0, 0])) for row in rows) == [(0, 0), (1, 16), (2, 32)]


@pytest.mark.usefixtures("installed")
def test_the_name_of_the_kind_is_accepted(archive: Path, tmp_path: Path) -> None:
    plain = archive.rename(tmp_path / "digits")
    assert main(["import", "--from", "npz", str(plain), str(tmp_path / "out"), "--yes"]) == 0


@pytest.mark.usefixtures("installed")
def test_arrays_of_two_lengths_stop_the_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "x.npz", a=np.zeros(3), b=np.zeros(2))
    assert main(["import", str(tmp_path / "x.npz"), str(tmp_path / "out"), "--yes"]) != 0
    assert "expected arrays of one length, found {'a': 3, 'b': 2}" in " ".join(capsys.readouterr().err.split())


def test_without_the_package_the_kind_is_unknown(archive: Path) -> None:
    with pytest.raises(ConfigError, match="there is no kind of source 'npz'"):
        open_source(str(archive), kind="npz", options=SourceOptions())
    with pytest.raises(ConfigError, match="this is no source that can be imported"):
        open_source(str(archive), kind=None, options=SourceOptions())


def test_a_package_that_cannot_be_loaded_is_named(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in site.rglob("*.dist-info/*"):
        copy = tmp_path / file.relative_to(site)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(file.read_bytes())
    (tmp_path / "npz_source.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    fault = "'npz', which the package npz-source adds to the sources, cannot be loaded: ModuleNotFoundError: No module"
    with pytest.raises(ConfigError, match=re.escape(fault)) as caught:
        load_extension("sources", "npz")
    assert caught.value.hint == "repair it, or run: pip uninstall npz-source"


def test_two_packages_with_one_name_are_refused(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[energon_toolkit.sources]\nnpz = json:loads\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.syspath_prepend(tmp_path)
    assert extension_names("sources") == ["npz"]
    with pytest.raises(ConfigError, match="npz-source and other both add 'npz' to the sources"):
        load_extension("sources", "npz")
