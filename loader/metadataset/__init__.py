"""Mix several datasets by metadataset files, as plain data.

| place               | contents                                                                      |
| ------------------- | ----------------------------------------------------------------------------- |
| `documents/`        | parse metadataset files: references, blends, joins, with the place of faults  |
| `plans/`            | resolve a tree of metadatasets to its leaves, with weights and subsets        |
| `joins/`            | prepare and open the rows of joined datasets                                  |
| `leaf_samples.py`   | count the samples of leaves                                                   |
| `datasets.py`       | list and open the datasets that paths name, and choose samples of them        |
| `lint.py`           | check a metadataset and every dataset in it                                   |

Planning starts in `plans/plan_leaves.py`. Modules import downwards in this table: `plans` imports `documents`, `joins`
imports both, and the modules below import all three.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
