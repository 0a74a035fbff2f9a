# The public names of this package, each with the module that defines it.

from .file_access import FileAccess as FileAccess, RefusedFiles as RefusedFiles
from .shard_layout import ShardLayout as ShardLayout
