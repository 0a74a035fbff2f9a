"""Account for the input of commands, and distinguish what its files really are.

- :mod:`account` counts every unit of the input: used, left out by reason, or failed by reason.
- :mod:`reasons` is the closed list of reasons; ``energon rule`` explains each.
- :mod:`kinds` distinguishes pictures, sound, video, texts and other files by their names and first bytes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
