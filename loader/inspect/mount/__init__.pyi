# The public names of this package, each with the module that defines it.

from .dataset_files import Layout as Layout
from .serve import serve_tree as serve_tree
from .tree import (
    Entry as Entry,
    MountedTree as MountedTree,
    open_tree as open_tree,
)
