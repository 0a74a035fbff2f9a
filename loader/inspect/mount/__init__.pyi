# The public names of this package, each with the module that defines it.

from .serve import serve_tree as serve_tree
from .tree import (
    Entry as Entry,
    Layout as Layout,
    MountedTree as MountedTree,
    open_tree as open_tree,
)
