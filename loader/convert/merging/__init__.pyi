# The public names of this package, each with the module that defines it.

from .run import (
    MergePlan as MergePlan,
    MergeReport as MergeReport,
    run_merge as run_merge,
)
