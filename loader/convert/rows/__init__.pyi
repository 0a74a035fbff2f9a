# The public names of this package, each with the module that defines it.

from .shard_plan import ShardLayout as ShardLayout
