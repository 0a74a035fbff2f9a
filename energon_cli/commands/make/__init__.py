"""The command ``energon import``, which makes datasets of other files."""
