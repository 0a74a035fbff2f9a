"""Make a dataset: ``energon import``. ``energon prepare`` is a package of its own."""
