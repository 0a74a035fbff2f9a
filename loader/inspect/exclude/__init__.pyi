# The public names of this package, each with the module that defines it.

from .history import (
    ListedExclusions as ListedExclusions,
    list_exclusions as list_exclusions,
    undo as undo,
)
from .run import (
    ExcludeReport as ExcludeReport,
    ExcludeRequest as ExcludeRequest,
    exclude as exclude,
)
