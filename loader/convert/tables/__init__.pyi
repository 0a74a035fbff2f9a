# The public names of this package, each with the module that defines it.

from .columns import FoundColumn as FoundColumn
