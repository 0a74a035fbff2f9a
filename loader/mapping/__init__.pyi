# The public names of this package, each with the module that defines it.

from .function import UserFunction as UserFunction, given_function as given_function, named_function as named_function
from .new_shards import ToDataset as ToDataset, ToParts as ToParts, output_of as output_of
from .outputs import ToColumns as ToColumns, ToFilter as ToFilter
from .reading import shown_dataset as shown_dataset, whole_dataset as whole_dataset
from .run import (
    MapProgress as MapProgress,
    MapReport as MapReport,
    MapRequest as MapRequest,
    run_map as run_map,
    show_values as show_values,
)
from .tasks import SAMPLES_OF_TASK as SAMPLES_OF_TASK, MapOutput as MapOutput
