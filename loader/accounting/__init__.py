"""Account for the input of a command, and distinguish what its files really are.

- :mod:`account` counts units as used, left out by reason, or failed by reason, and checks the sums; it has the closed
  list of reasons (``reasons.toml``), which ``energon rule`` explains.
- :mod:`part_sets` counts which part names occur together in samples.
- :mod:`kinds` distinguishes pictures, sound, video, texts and other files by their names and first bytes.
- :mod:`large_parts` keeps commands from parsing JSON that fills the memory.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
