"""Distinguish what the parts of samples, and files, really are.

- :mod:`kinds` distinguishes pictures, sound, video, texts and other files by their names and first bytes.
- :mod:`part_sets` counts which part names occur together in samples.
- :mod:`large_parts` keeps commands from parsing JSON that fills the memory.
- :mod:`other_file` names files that are others than their names say.
"""
