"""The cache is off unless a folder is set; limits are numbers of bytes with units."""

from __future__ import annotations

import pytest

from loader.errors import ConfigError
from loader.storage.node_cache.private_folder import CacheSettings, cache_settings, parse_bytes


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENERGON_CACHE_DIR", "ENERGON_CACHE_BYTES", "ENERGON_CACHE_ON_NETWORK"):
        monkeypatch.delenv(name, raising=False)


def test_the_cache_is_off_by_default() -> None:
    assert cache_settings() is None


def test_variables_turn_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENERGON_CACHE_DIR", "/scratch")
    assert cache_settings() == CacheSettings(folder="/scratch")
    monkeypatch.setenv("ENERGON_CACHE_BYTES", "2TB")
    monkeypatch.setenv("ENERGON_CACHE_ON_NETWORK", "1")
    assert cache_settings() == CacheSettings(folder="/scratch", limit_bytes=2 * 10**12, on_network=True)


def test_options_win_over_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENERGON_CACHE_DIR", "/scratch")
    monkeypatch.setenv("ENERGON_CACHE_BYTES", "2TB")
    assert cache_settings("/other", "1 KiB") == CacheSettings(folder="/other", limit_bytes=1024)
    assert cache_settings("") is None


@pytest.mark.parametrize("text", ["", "much", "-1", "1 PB", "1I", "1e9", "٣", "1..2", "GB", "nan"])
def test_what_is_no_number_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a number of bytes in ENERGON_CACHE_BYTES"):
        parse_bytes(text, "ENERGON_CACHE_BYTES")
