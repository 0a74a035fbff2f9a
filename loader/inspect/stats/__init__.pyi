# The public names of this package, each with the module that defines it.

from .collect import (
    StatsReport as StatsReport,
    StatsRequest as StatsRequest,
    collect_stats as collect_stats,
)
from .distribution import (
    Distribution as Distribution,
    TopValues as TopValues,
)
from .page import html_report as html_report
