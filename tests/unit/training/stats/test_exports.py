"""Statistics reach monitoring systems in the formats that these read."""

from __future__ import annotations

import importlib
import urllib.request
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loader import ConfigError, LoaderStats, MapDataset, StatsOptions, WorkerConfig, get_loader
from loader.testing.stage import Values
from loader.training.stats.report_files import rank_path
from loader.training.stats.run_stats import RunStats

prometheus_parser = pytest.importorskip("prometheus_client.parser")


def plus_one(value: int) -> int:
    return value + 1


def loader_of(options: StatsOptions, **config: Any) -> Any:
    config = {"rank": 0, "world_size": 1, "num_workers": 0, "lanes": 2, **config}
    dataset = MapDataset(Values(range(60), worker_config=WorkerConfig(**config)), plus_one, name='say "plus"\n')
    return get_loader(dataset, stats=options)


def numbers_of(text: str) -> dict[tuple[str, str], float]:
    """Parse Prometheus' text format: name and value of the first label other than the rank → number."""
    return {
        (sample.name, next((value for label, value in sample.labels.items() if label != "rank"), "")): sample.value
        for family in prometheus_parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_text_file_is_read_by_prometheus_parser_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "loader.prom"
    loader = loader_of(StatsOptions(every_s=1e-6, prometheus_file=path))
    found = [numbers_of(path.read_text()) for _ in islice(loader, 5)]
    assert [numbers["energon_loader_steps_total", ""] for numbers in found] == [1, 2, 3, 4, 5]
    assert ("energon_loader_waited_seconds_total", 'say "plus"\n') in found[-1]
    assert [*tmp_path.iterdir()] == [path]


def test_no_counter_falls_if_an_extrapolated_time_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "loader.prom"
    loader = loader_of(StatsOptions(every_s=1e-6, prometheus_file=path))
    measured, estimates = RunStats.stats, iter([2.0, 1.5, 1.75, 3.0])

    def stats(self: RunStats) -> LoaderStats:
        estimate = next(estimates)
        return replace(measured(self), worker_s={"other": estimate}, rss_bytes=int(1e6 * estimate))

    monkeypatch.setattr(RunStats, "stats", stats)
    found = [numbers_of(path.read_text()) for _ in islice(loader, 4)]
    assert [numbers["energon_loader_worker_seconds_total", "other"] for numbers in found] == [2.0, 2.0, 2.0, 3.0]
    assert [numbers["energon_loader_resident_memory_bytes", "rank"] for numbers in found] == [2e6, 1.5e6, 1.75e6, 3e6]
    monkeypatch.undo()


def test_prometheus_reads_them_from_a_port() -> None:
    loader = loader_of(StatsOptions(every_s=1e-6, prometheus_port=0))
    for _ in islice(loader, 7):
        pass
    stats = loader.run.stats
    text = urllib.request.urlopen(f"http://127.0.0.1:{stats.served_port}/metrics").read().decode()
    numbers = numbers_of(text)
    assert numbers["energon_loader_steps_total", ""] == 7
    assert numbers["energon_loader_resident_memory_bytes", "rank"] > 1e6
    second = loader_of(StatsOptions(prometheus_port=stats.served_port))
    with pytest.raises(ConfigError, match="cannot serve metrics at 127"):
        next(iter(second))


def test_opentelemetry_collects_them() -> None:
    metrics = pytest.importorskip("opentelemetry.sdk.metrics")
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    api = pytest.importorskip("opentelemetry.metrics")
    reader = export.InMemoryMetricReader()
    api.set_meter_provider(metrics.MeterProvider(metric_readers=[reader]))
    loader = loader_of(StatsOptions(every_s=1e-6, opentelemetry=True))
    for _ in islice(loader, 9):
        pass
    found = {
        metric.name: metric.data.data_points
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert [point.value for point in found["energon.loader.steps"]] == [9]
    causes = {point.attributes["cause"] for point in found["energon.loader.waited_seconds"]}
    assert 'say "plus"\n' in causes


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ConfigError, match="need the package prometheus-client") as caught:
        next(iter(loader_of(StatsOptions(prometheus_port=0))))
    assert caught.value.hint == "pip install 'energon-toolkit[metrics]'"


def test_each_rank_has_a_file_of_its_own(tmp_path: Path) -> None:
    paths = {rank_path(tmp_path / "a.jsonl", rank=rank, ranks=3) for rank in range(3)}
    assert {path.name for path in paths} == {"a.jsonl", "a.rank1.jsonl", "a.rank2.jsonl"}
    loader = loader_of(StatsOptions(every_s=1e-6, file=tmp_path / "rank-{rank}.jsonl"), rank=1, world_size=2)
    next(iter(loader))
    assert (tmp_path / "rank-1.jsonl").read_text().count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every_s": 0}, "expected every_s above 0"),
        ({"prometheus_file": "a.txt"}, "ends in .prom"),
        ({"prometheus_port": 70000}, r"expected a prometheus_port of \[0, 65536\)"),
        ({"file": "s3://bucket/a.jsonl"}, "expected a local path as file"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StatsOptions(**options)


def test_stats_of_another_type_are_refused() -> None:
    with pytest.raises(TypeError, match="expected True, False or StatsOptions"):
        loader_of("yes")  # type: ignore[arg-type]
