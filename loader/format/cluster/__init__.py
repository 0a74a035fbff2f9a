"""Divide the scans of a prepare among processes, machines and the workers of an executor.

=============== ======================================================
`share.py`      which part of how many a process does: ``3/64``
`part_plan.py`  the shards of each part, written once for all parts
`complete.py`   which parts are not complete
`executor.py`   tasks in an executor, in the order of their results
`dask_engine.py` the executor of a Dask cluster
=============== ======================================================
"""
