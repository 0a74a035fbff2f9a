"""``energon explain`` and ``energon trace``: what a training run does, from its arguments alone."""
