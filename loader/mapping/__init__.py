"""Run a user's function over the samples of a dataset, on any engine; results become columns, filters or datasets.

===================  =========================================================================
``run.py``           the request, the loop and the report
``function.py``      the function or class, by module and name, as workers import it
``tasks.py``         which samples a task has, and the work on one task
``reading.py``       samples by their numbers in the index; one that cannot be read is a failure
``values.py``        returned values of one task, and the type that holds all values
``outputs.py``       what becomes of the results: columns, a filter, parts, a dataset
===================  =========================================================================
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
