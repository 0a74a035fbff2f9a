# The public names of this package, each with the module that defines it.

from .inputs import (
    MergePlan as MergePlan,
    MergeReport as MergeReport,
)
from .run import run_merge as run_merge
