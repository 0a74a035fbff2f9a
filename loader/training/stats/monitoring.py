"""Show statistics to monitoring systems that ask this process: Prometheus by a port, OpenTelemetry by its meters."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...errors import ConfigError
from .report_files import METRICS, Metric

Latest = Callable[[], Iterable[Metric]]


def _imported(module: str, package: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"these statistics need the package {package}, which is not installed",
            hint=f"pip install 'energon-toolkit[{extra}]'",
        ) from error


def serve_prometheus(latest: Latest, *, host: str, port: int) -> tuple[int, Callable[[], None]]:
    """Serve statistics to Prometheus from a thread.

    Args:
        latest: Returns the metrics of the last report; none before the first.
        host: The address.
        port: The port; 0 chooses a free one.

    Returns:
        The port, and the function that ends the server.

    Raises:
        ConfigError: ``prometheus-client`` is not installed, or the port is taken.
    """
    client = _imported("prometheus_client", "prometheus-client", "metrics")
    registry = client.CollectorRegistry()
    registry.register(_Collector(latest, importlib.import_module("prometheus_client.core")))
    try:
        server, thread = client.start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise ConfigError(
            f"cannot serve metrics at {host}:{port}: {error.strerror}",
            hint="choose another prometheus_port; each rank of a host needs its own",
        ) from error

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return int(server.server_port), end


class _Collector:
    def __init__(self, latest: Latest, families: Any) -> None:
        self._latest = latest
        self._counter, self._gauge = families.CounterMetricFamily, families.GaugeMetricFamily

    def collect(self) -> Iterator[Any]:
        """Yield the metric families of the statistics."""
        families: dict[str, Any] = {}
        for metric in self._latest():
            name = f"energon_loader_{metric.name}"
            if name not in families:
                kind = self._counter if metric.is_counter else self._gauge
                families[name] = kind(name, metric.help, labels=[*metric.labels])
            families[name].add_metric([*metric.labels.values()], metric.value)
        yield from families.values()


def observe_with_opentelemetry(latest: Latest) -> None:
    """Let the meter provider of OpenTelemetry observe statistics, whenever its reader collects.

    Args:
        latest: As above.

    Raises:
        ConfigError: ``opentelemetry-api`` is not installed.
    """
    api = _imported("opentelemetry.metrics", "opentelemetry-api", "metrics")
    meter = api.get_meter("energon.loader")

    def observe(name: str) -> Callable[[Any], list[Any]]:
        return lambda _options: [
            api.Observation(metric.value, metric.labels) for metric in latest() if metric.name == name
        ]

    for name, help_ in METRICS.items():
        create = meter.create_observable_counter if name.endswith("_total") else meter.create_observable_gauge
        create(f"energon.loader.{name.removesuffix('_total')}", callbacks=[observe(name)], description=help_)
