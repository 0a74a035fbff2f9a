# The public names of this package, each with the module that defines it.

from .condition import Condition as Condition
from .samples import (
    SampleQuery as SampleQuery,
    find_samples as find_samples,
    read_keys as read_keys,
)
