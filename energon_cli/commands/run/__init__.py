"""Run a training: ``explain``, ``trace``, ``analyze-debug``, ``profile``, ``checkpoint`` and ``doctor``."""
