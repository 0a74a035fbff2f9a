# The public names of this package, each with the module that defines it.

from .compare import (
    compare_paths as compare_paths,
)
from .datasets import (
    DiffReport as DiffReport,
)
