# The public names of this package, each with the module that defines it.

from .dataset_files import (
    Entry as Entry,
    Layout as Layout,
)
from .serve import serve_tree as serve_tree
from .tree import (
    MountedTree as MountedTree,
    open_tree as open_tree,
)
