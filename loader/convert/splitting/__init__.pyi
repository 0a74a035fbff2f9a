# The public names of this package, each with the module that defines it.

from .groups import (
    LeakReport as LeakReport,
    check_group_expression as check_group_expression,
    find_leaks as find_leaks,
)
from .run import (
    SplitPlan as SplitPlan,
    SplitReport as SplitReport,
    run_split as run_split,
    undo_split as undo_split,
)
