"""Count the input of commands, and distinguish what its files really are.

- :mod:`account` counts the units and checks that the sum is complete.
- :mod:`kinds` distinguishes pictures, sound, video, texts and other files by their names and first bytes.
- :mod:`part_sets` counts which part names occur together in samples.
- :mod:`reasons` is the closed list of reasons; ``energon rule`` explains each.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
