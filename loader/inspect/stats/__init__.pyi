# The public names of this package, each with the module that defines it.

from .collect import (
    StatsReport as StatsReport,
    StatsRequest as StatsRequest,
    collect_stats as collect_stats,
    shared_duplicates as shared_duplicates,
)
from .distribution import (
    Distribution as Distribution,
    TopValues as TopValues,
)
from .page import html_report as html_report
from .scan import (
    ValueEstimate as ValueEstimate,
    compute_values as compute_values,
    estimate_values as estimate_values,
    value_names as value_names,
)
