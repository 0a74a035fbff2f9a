# The public names of this package, each with the module that defines it.

from .compare import (
    compare_paths as compare_paths,
    kind_of_path as kind_of_path,
)
from .datasets import (
    DiffReport as DiffReport,
)
