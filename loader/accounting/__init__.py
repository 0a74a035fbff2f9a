"""Count the input of commands: every unit is used, left out by reason, or failed by reason.

- :mod:`account` counts the units and checks that the sum is complete.
- :mod:`reasons` is the closed list of reasons; ``energon rule`` explains each.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
