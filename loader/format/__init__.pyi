# The public names of this package, each with the module that defines it.

from .dataset_ref import DatasetRef as DatasetRef
from .unfinished import check_finished as check_finished
