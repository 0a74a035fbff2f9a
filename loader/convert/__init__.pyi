# The public names of this package, each with the module that defines it.

from .resharding import (
    ReshardPlan as ReshardPlan,
    ReshardReport as ReshardReport,
    run_reshard as run_reshard,
)
from .rows.row_file import ShardLayout as ShardLayout
