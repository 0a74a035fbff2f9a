"""Task encoders and cookers: the hooks of user code."""
