# The public names of this package, each with the module that defines it.

from .plan import (
    ReshardPlan as ReshardPlan,
    ReshardReport as ReshardReport,
)
from .run import run_reshard as run_reshard
