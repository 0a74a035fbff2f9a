"""The commands that create datasets: ``import``, ``prepare`` and ``prepare-media``, and their questions."""
