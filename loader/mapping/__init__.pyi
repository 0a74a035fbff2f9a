# The public names of this package, each with the module that defines it.

from .function import UserFunction as UserFunction, given_function as given_function, named_function as named_function
from .new_shards import ToDataset as ToDataset, ToParts as ToParts
from .outputs import ToColumns as ToColumns, ToFilter as ToFilter
from .reading import whole_dataset as whole_dataset
from .run import (
    MapOutput as MapOutput,
    MapReport as MapReport,
    MapRequest as MapRequest,
    run_map as run_map,
    show_values as show_values,
)
