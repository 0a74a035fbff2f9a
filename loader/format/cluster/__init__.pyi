# The public names of this package, each with the module that defines it.

from .executor import open_dask_executor as open_dask_executor
from .share import (
    Part as Part,
    check_not_planned as check_not_planned,
    parse_part as parse_part,
)
