# The public names of this package, each with the module that defines it.

from .metadata import (
    MediaFilter as MediaFilter,
    parse_patterns as parse_patterns,
)
from .tables import MediaReport as MediaReport
