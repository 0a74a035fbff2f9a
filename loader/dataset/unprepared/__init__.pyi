# The public names of this package, each with the module that defines it.

from .tar_index import (
    TarFolder as TarFolder,
    find_tars as find_tars,
)
