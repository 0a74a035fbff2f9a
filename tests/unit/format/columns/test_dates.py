"""Columns of dates, from the functions and tables that have them to all that reads columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from energon_cli.main import main
from loader import open_dataset
from loader.dataset.opening import folder_at
from loader.dataset.query import SampleQuery, find_samples
from loader.errors import ConfigError
from loader.format.dataset_ref import DatasetRef
from loader.mapping.values import piece_of, plain_values
from tests.e2e.dataset_tree import caption_samples, prepare, write_shard

SAMPLES = 12
FIRST = datetime(2023, 11, 5, 22, 30, tzinfo=UTC)
TAKEN = [FIRST + timedelta(days=20 * n) if n % 5 < 4 else None for n in range(SAMPLES)]
"""A date of each sample; every fifth has none."""
dates_in_utc = np.array(["NaT" if date is None else date.replace(tzinfo=None) for date in TAKEN], "M8[us]")
MAPPED = """
from datetime import datetime, timedelta, timezone

def taken(sample):
    n = int(sample["txt"].partition(" ")[2])
    local = datetime(2023, 11, 5, 23, 30, tzinfo=timezone(timedelta(hours=1)))
    return local + timedelta(days=20 * n) if n % 5 < 4 else None
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a dataset with a column of dates, which a function with a zone of its own returned."""
    folder = tmp_path / "ds"
    folder.mkdir()
    for shard in range(2):
        write_shard(folder / f"s{shard}.tar", caption_samples(6 * shard, 6))
    prepare(folder)
    (tmp_path / "mapped.py").write_text(MAPPED)
    assert main(["map", str(folder), f"{tmp_path / 'mapped.py'}:taken", "--write", "taken", "--yes"]) == 0
    return folder


def column(folder: Path) -> Any:
    return open_dataset(str(folder)).columns["taken"]


def chosen(folder: Path, condition: str) -> list[int]:
    samples: list[int] = find_samples(folder_at(DatasetRef(str(folder))), SampleQuery(where=condition)).tolist()
    return samples


def test_a_function_returns_dates_of_any_zone(folder: Path) -> None:
    np.testing.assert_array_equal(column(folder), dates_in_utc)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("taken >= '2024-01-01'", lambda date: date >= np.datetime64("2024-01-01")),
        ("'2024' <= taken", lambda date: date >= np.datetime64("2024")),
        ("taken == '2023-11'", lambda date: date.astype("M8[M]") == np.datetime64("2023-11")),
        ("taken <= '2023-11-25'", lambda date: date < np.datetime64("2023-11-26")),
        ("taken == '2023-11-25T22:30Z'", lambda date: date == np.datetime64("2023-11-25T22:30")),
        ("taken in ['2023-12', '2024-03']", lambda date: str(date)[:7] in ("2023-12", "2024-03")),
        ("not taken < '2024'", lambda date: date >= np.datetime64("2024")),
        ("taken != taken", lambda _: False),
        ("known(taken)", lambda _: True),
    ],
)
def test_conditions_compare_dates_as_precisely_as_texts(folder: Path, condition: str, expected: Any) -> None:
    known = [n for n in range(SAMPLES) if not np.isnat(dates_in_utc[n])]
    assert chosen(folder, condition) == [n for n in known if expected(dates_in_utc[n])]


@pytest.mark.parametrize(
    ("condition", "fault"),
    [
        ("taken > 5", "a date is written as a text: '2024-03-05'"),
        ("taken > 'soon'", "Error parsing datetime string"),
        ("taken > ''", "'' is not a date"),
        ("taken + 1 > 3", "texts are compared, not calculated with; so are dates"),
        ("taken", "expected a comparison, found 'taken' alone"),
        ("taken == bytes", "of two kinds"),
    ],
)
def test_other_comparisons_of_dates_are_refused(folder: Path, condition: str, fault: str) -> None:
    with pytest.raises(ConfigError, match="invalid condition") as refused:
        chosen(folder, condition)
    assert fault in str(refused.value)


def test_statistics_count_months_and_info_names_the_type(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["stats", str(folder)]) == 0
    (line,) = (each for each in capsys.readouterr().out.splitlines() if each.startswith("taken"))
    assert "2023-11 (2)" in line
    assert main(["info", str(folder)]) == 0
    assert "taken: datetime64[us], 2 samples without a value" in capsys.readouterr().out
    assert main(["lint", str(folder)]) == 0


def test_reshard_and_merge_carry_dates(folder: Path, tmp_path: Path) -> None:
    new, merged = tmp_path / "new", tmp_path / "merged"
    reshard = ["reshard", str(folder), str(new), "--where", "taken > '2024-01'", "--sort-by", "taken"]
    assert main(reshard) == 0
    np.testing.assert_array_equal(np.sort(column(new)), dates_in_utc[dates_in_utc > np.datetime64("2024-02-01")])
    assert main(["merge", str(folder), str(new), str(merged)]) == 0
    np.testing.assert_array_equal(column(merged), np.concatenate([dates_in_utc, column(new)]))


def test_a_table_of_arrow_has_dates(folder: Path) -> None:
    taken = open_dataset(str(folder)).to_arrow(["taken"])["taken"]
    assert taken.type == pa.timestamp("us")
    assert taken.to_pylist() == [date and date.replace(tzinfo=None) for date in TAKEN]


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_timestamps_of_tables_are_dates(tmp_path: Path, zone: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "table").mkdir()
    dates = [date and (date if zone else date.replace(tzinfo=None)) for date in TAKEN]
    table = pa.table({"text": [f"t{n}" for n in range(SAMPLES)], "taken": pa.array(dates, pa.timestamp("us", zone))})
    pq.write_table(table, tmp_path / "table/rows.parquet")
    assert main(["stats", str(tmp_path / "table/rows.parquet"), "--where", "taken >= '2024-01-01'", "--json"]) == 0
    later = sum(not np.isnat(date) and date >= np.datetime64("2024-01-01") for date in dates_in_utc)
    assert f'"samples": {later}' in capsys.readouterr().out
    assert main(["prepare", str(tmp_path / "table"), "--yes"]) == 0
    assert main(["stats", str(tmp_path / "table"), "--write", "taken"]) == 0
    np.testing.assert_array_equal(column(tmp_path / "table"), dates_in_utc)


def test_a_column_does_not_mix_dates_and_other_values() -> None:
    values: list[Any] = [datetime(2024, 3, 5, tzinfo=timezone(timedelta(hours=2))), np.datetime64("NaT"), 3]
    assert not [*plain_values(values)]
    assert values == [np.datetime64("2024-03-04T22:00:00.000000"), None, 3]
    with pytest.raises(Exception, match="would mix dates and integers"):
        piece_of(values, 0, column="x", at="ds", key=partial(str))
