# The public names of this package, each with the module that defines it.

from .embedding import Embedding as Embedding, embedding_of as embedding_of, part_source as part_source
from .groups import (
    NearDuplicates as NearDuplicates,
    find_near_leaks as find_near_leaks,
    near_duplicate_groups as near_duplicate_groups,
    near_duplicates_of as near_duplicates_of,
)
from .nearest import Neighbour as Neighbour, neighbours as neighbours, neighbours_of as neighbours_of
from .picture_hash import hash_picture as hash_picture
from .text_hash import hash_text as hash_text
