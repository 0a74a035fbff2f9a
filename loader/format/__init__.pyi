# The public names of this package, each with the module that defines it.

from .data_kind import data_path as data_path, is_tar_file as is_tar_file
from .dataset_ref import DatasetRef as DatasetRef
from .unfinished import check_finished as check_finished
