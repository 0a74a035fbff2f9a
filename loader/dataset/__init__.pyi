# The public names of this package, each with the module that defines it.

from .dataset import Dataset as Dataset
from .kind import kind_at as kind_at
from .opening import dataset_at as dataset_at, folder_at as folder_at
from .shared_index import (
    SharedIndex as SharedIndex,
    pull_index as pull_index,
    push_index as push_index,
    writable_ref as writable_ref,
)
