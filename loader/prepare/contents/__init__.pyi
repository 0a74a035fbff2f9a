# The public names of this package, each with the module that defines it.

from .findings import Contents as Contents
from .proposed_fields import only_field_map as only_field_map, propose_field_map as propose_field_map
