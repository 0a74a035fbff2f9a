# The public names of this package, each with the module that defines it.

from .findings import Contents as Contents
