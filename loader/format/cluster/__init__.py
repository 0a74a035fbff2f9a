"""Divide the scans of a prepare among processes, machines and the workers of an executor.

====================  =====================================================
``launched_rank.py``  the rank that srun, torchrun or MPI gave this process
``share.py``          which part of how many a process scans: ``3/64``, and the shards of each part
``executor.py``       tasks in an executor, such as a Dask cluster, in the order of their results
====================  =====================================================
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
