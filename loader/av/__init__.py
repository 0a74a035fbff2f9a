"""Decode clips and frames of audio and video.

Decoding needs PyAV (``pip install 'energon-toolkit[av]'``); importing this package does not.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
