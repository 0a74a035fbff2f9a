"""The command ``energon profile``."""
