# The public names of this package, each with the module that defines it.

from .dask_engine import open_dask_executor as open_dask_executor
from .part_plan import check_not_planned as check_not_planned
from .share import (
    Part as Part,
    parse_part as parse_part,
)
