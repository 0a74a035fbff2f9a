# The public names of this package, each with the module that defines it.

from .dataset import Dataset as Dataset
from .kind import kind_at as kind_at
from .opening import dataset_at as dataset_at, folder_at as folder_at
