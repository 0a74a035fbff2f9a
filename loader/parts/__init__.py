"""Distinguish what the parts of samples, and files, really are.

- :mod:`kinds` distinguishes pictures, sound, video, texts and other files by their names and first bytes.
- :mod:`part_sets` counts which part names occur together in samples.
- :mod:`large_parts` keeps commands from parsing JSON that fills the memory.
- :mod:`other_file` names files that are others than their names say.
- :mod:`open_picture` opens pictures, and refuses those that would fill the memory; :mod:`unread_picture` says why a
  whole picture cannot be read.
- :mod:`picture_traits` reads what training may treat unlike a viewer: frames, turns, bits, alpha and CMYK.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
