"""The options of statistics."""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Real
from typing import Any

from ...errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsOptions:
    """Options of a loader's statistics: ``get_loader(dataset, stats=StatsOptions(every_s=10))``.

    The reports below are made by the training loop when it takes the first micro-batch after an interval, so they need
    no thread, and there is none while the loop does something else.

    Args:
        every_s: Seconds between two lines in the log (logger ``loader``, level INFO), and two reports to the files
            below; None for none.
        file: Local file of JSON lines, one object for each report. It may have ``{rank}`` in its name; otherwise each
            rank of several adds its number: ``stats.jsonl``, ``stats.rank1.jsonl``.
        prometheus_file: Local file of metrics in Prometheus' text format, replaced at each report, for the textfile
            collector of node_exporter; its name must end in ``.prom``. Ranks have files of their own, as above.
        prometheus_port: Port at which the process serves the metrics (extra ``metrics``); ranks of one host need
            different ports. 0 chooses a free one.
        prometheus_host: Address at which they are served; by default only this host reaches it.
        opentelemetry: Report to the meter provider of OpenTelemetry that the program has set (``opentelemetry-api``).
        headroom: Repeat cached micro-batches in alternation with new ones, to measure what a perfect loader would
            gain. **For measurements only**: the model sees repeated data.

    Raises:
        ConfigError: A value is out of range, a file is a folder, or its name has another ending. Iterating raises it if
            the folder of a file does not exist.
        TypeError: A value has another type.

    >>> StatsOptions(every_s=10).every_s
    10
    """

    every_s: float | None = 60
    file: str | os.PathLike[str] | None = None
    prometheus_file: str | os.PathLike[str] | None = None
    prometheus_port: int | None = None
    prometheus_host: str = "127.0.0.1"
    opentelemetry: bool = False
    headroom: bool = False

    def __post_init__(self) -> None:
        # Check the interval.
        every_s: Any = self.every_s
        if every_s is not None and (isinstance(every_s, bool) or not isinstance(every_s, Real)):
            raise TypeError(f"expected a number of seconds or None as every_s, found {every_s!r}")
        if every_s is not None and not float(every_s) > 0:
            raise ConfigError(f"expected every_s above 0, or None, found {every_s:g}")
        # Check the files, which must be local.
        for name in ("file", "prometheus_file"):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, str | os.PathLike):
                raise TypeError(f"expected a path or None as {name}, found {value!r}")
            if "://" in os.fspath(value):
                raise ConfigError(f"expected a local path as {name}, found {os.fspath(value)!r}")
            if os.path.isdir(value):
                raise ConfigError(f"expected a file as {name}, found a folder: {os.fspath(value)!r}")
        # Check what Prometheus requires.
        if self.prometheus_file is not None and not os.fspath(self.prometheus_file).endswith(".prom"):
            raise ConfigError(
                f"expected a prometheus_file whose name ends in .prom, found {os.fspath(self.prometheus_file)!r}",
                hint="the textfile collector of node_exporter reads no others",
            )
        port = self.prometheus_port
        if port is not None and (type(port) is not int or not 0 <= port < 65536):
            raise ConfigError(f"expected a prometheus_port of [0, 65536), or None, found {port!r}")

    @property
    def reports(self) -> bool:
        """True if there are reports at intervals other than the line in the log."""
        return self.file is not None or self.prometheus_file is not None


def checked_stats(stats: Any) -> StatsOptions | None:
    """Return the options of an argument ``stats``; None for no statistics.

    >>> checked_stats(True) == StatsOptions(), checked_stats(False)
    (True, None)
    """
    if stats is True:
        return StatsOptions()
    if stats is False or stats is None:
        return None
    if not isinstance(stats, StatsOptions):
        raise TypeError(f"expected True, False or StatsOptions(…) as stats, found {stats!r}")
    return stats
