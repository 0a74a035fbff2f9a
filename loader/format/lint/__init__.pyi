# The public names of this package, each with the module that defines it.

from .run import lint_dataset as lint_dataset
