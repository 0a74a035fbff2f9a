"""Make a dataset: ``import``, ``prepare`` and ``prepare-media``, and the questions that they ask."""
