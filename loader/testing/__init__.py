"""Tests of the promises that datasets, stores of files and stages keep, to run over your own.

===============  ======================================================================================
``dataset.py``   samples by number and key, ranges of parts, pickles, threads and excluded samples
``storage.py``   files that are written, read in ranges, listed and removed, also by several threads
``stage.py``     a chain of stages that is restored at each step, and rebuilds each item
===============  ======================================================================================

They need pytest. A module of tests derives a class from a suite, and defines its fixtures::

    from loader.testing import StorageContract

    @pytest.fixture
    def storage(tmp_path): return MyStorage(tmp_path)

    class TestMyStorage(StorageContract): ...
"""

import lazy_loader
import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in ("dataset", "stage", "storage")))  # show values

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
