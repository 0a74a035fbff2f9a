"""Account for the input of a command, and distinguish what its files really are.

- :mod:`account` counts units as used, left out by reason, or failed by reason, and checks the sums.
- :mod:`part_sets` counts which part names occur together in samples.
- :mod:`rules` explains a code, and has the closed list of reasons (``reasons.toml``); ``energon rule`` prints them.
- :mod:`kinds` distinguishes pictures, sound, video, texts and other files by their names and first bytes, and
  :mod:`foreign_contents` names files that are not what their name says.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
