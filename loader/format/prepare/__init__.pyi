# The public names of this package, each with the module that defines it.

from .run import run_prepare as run_prepare
