# The public names of this package, each with the module that defines it.

from .history import (
    ListedExclusions as ListedExclusions,
    list_each as list_each,
    list_exclusions as list_exclusions,
    undo as undo,
    undo_each as undo_each,
)
from .run import (
    ExcludeReport as ExcludeReport,
    ExcludeRequest as ExcludeRequest,
    exclude as exclude,
    exclude_each as exclude_each,
)
