"""Divide the scans of a prepare among processes, machines and the workers of an executor.

====================  =====================================================
``share.py``          which part of how many a process scans: ``3/64``, and its shards; the rank in srun, torchrun, MPI
``executor.py``       tasks in an executor, such as a Dask cluster, in the order of their results
====================  =====================================================
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
