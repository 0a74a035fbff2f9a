"""Documents are read whole, up to a limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.errors import ConfigError
from loader.storage import LocalStorage, read_document


def test_a_document_above_the_limit_is_refused_and_no_more_of_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "split.yaml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigError, match="more than the limit of 268,435,456") as caught:
        read_document(LocalStorage(tmp_path), "split.yaml")
    assert caught.value.at == str(tmp_path / "split.yaml")
    (tmp_path / "x").write_bytes(b"0123456789")
    monkeypatch.setenv("ENERGON_MAX_DOCUMENT_BYTES", "9")
    with pytest.raises(ConfigError, match="ENERGON_MAX_DOCUMENT_BYTES=10"):
        read_document(LocalStorage(tmp_path), "x")
    monkeypatch.setenv("ENERGON_MAX_DOCUMENT_BYTES", "10")
    assert read_document(LocalStorage(tmp_path), "x") == b"0123456789"


def test_a_limit_that_is_no_number_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"0")
    monkeypatch.setenv("ENERGON_MAX_DOCUMENT_BYTES", "1 GB")
    with pytest.raises(ConfigError, match="expected a number of bytes in ENERGON_MAX_DOCUMENT_BYTES"):
        read_document(LocalStorage(tmp_path), "x")
