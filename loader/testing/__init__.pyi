# The public names of this package, each with the module that defines it.

from .dataset import DatasetContent as DatasetContent, DatasetContract as DatasetContract
from .stage import (
    Values as Values,
    check_resumes as check_resumes,
    lane as lane,
    steps as steps,
    values as values,
)
from .storage import StorageContract as StorageContract
