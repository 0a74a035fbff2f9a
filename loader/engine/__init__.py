"""Run the tasks of heavy commands: in processes of this machine, on Ray or Dask, or in shares of any scheduler.

=====================  ==========================================================================
``run.py``             an engine, the tasks of a job and the loop over their results
``engines.py``         engines by name, and the entry points of other packages
``journal.py``         the results of finished tasks on disk
``share.py``           which share of how many a process does: ``3/64``, SLURM, torchrun, MPI
``workers.py``         a function over many items in worker processes
``executor.py``        the same in an executor
``dask_executor.py``   the executor of a Dask cluster
``ray_executor.py``    an executor over the actors of a Ray cluster
``clusters.py``        connect to Ray; whether a server is a cluster
``account.py``         what becomes of the input of a command: used, left out or failed, with reasons
=====================  ==========================================================================
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
