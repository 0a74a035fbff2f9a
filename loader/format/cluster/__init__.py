"""Divide the scans of a prepare among processes, machines and the workers of an executor.

====================  =====================================================
``launched_rank.py``  the rank that srun, torchrun or MPI gave this process
``share.py``          which part of how many a process scans: ``3/64``
``part_plan.py``      the shards of each part, written once for all parts
``complete.py``       the parts that are not complete
``executor.py``       tasks in an executor, in the order of their results
``dask_engine.py``    the executor of a Dask cluster
====================  =====================================================
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
