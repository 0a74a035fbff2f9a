"""``energon explain``, ``trace`` and ``analyze-debug``: what a training run does, from its arguments or its logs."""
