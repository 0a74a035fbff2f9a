# The public names of this package, each with the module that defines it.

from .kind import (
    MediaFilter as MediaFilter,
    parse_patterns as parse_patterns,
)
from .metadata import is_media_folder as is_media_folder
from .picture_traits import TRAITS as TRAITS
from .tables import MediaReport as MediaReport
