"""Decode the parts of a sample and build the sample: types, decoders, task encoders, batching.

The names are listed in ``__init__.pyi`` and imported on first use: ``energon lint`` decodes images without importing
torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
