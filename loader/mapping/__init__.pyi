# The public names of this package, each with the module that defines it.

from .function import UserFunction as UserFunction, named_function as named_function
from .run import MapReport as MapReport, MapRequest as MapRequest, run_map as run_map
