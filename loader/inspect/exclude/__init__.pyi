# The public names of this package, each with the module that defines it.

from .run import (
    ExcludeReport as ExcludeReport,
    ExcludeRequest as ExcludeRequest,
    ListedExclusions as ListedExclusions,
    exclude as exclude,
    list_exclusions as list_exclusions,
    undo as undo,
)
