"""Several datasets mixed: what metadataset files say, as plain data.

| file                    | what is in it                                                        |
| ----------------------- | -------------------------------------------------------------------- |
| `parse_metadataset.py`  | a document to what it says, with all faults; `parse_…` are its parts |
| `mapping_reader.py`     | values of a document by type, each fault with its place              |
| `metadataset_spec.py`   | what a document says: references, blends, joins                      |
| `document_store.py`     | the documents of one tree, each read once                            |
| `dataset_paths.py`      | what a document's paths mean, and whether something lies there       |
| `plan_leaves.py`        | a metadataset to the leaves that are loaded: where to begin          |
| `tree_planner.py`       | the walk over the tree behind it                                     |
| `outer_levels.py`       | what outer levels say about inner ones: shares, labels, subsets      |
| `leaf_plan.py`          | what is to be loaded of one leaf                                     |
| `plan_node.py`          | the tree, for those who show it                                      |
| `subset.py`             | which neighbouring samples of a leaf are used                        |
| `repeated_leaves.py`    | warns of samples that are reached twice                              |
| `traverse.py`           | which datasets a metadataset names                                   |
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
