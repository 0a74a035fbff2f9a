# The public names of this package, each with the module that defines it.

from .picture_traits import TRAITS as TRAITS
