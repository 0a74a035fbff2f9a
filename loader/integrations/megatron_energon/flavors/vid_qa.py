from loader.samples.types import VidQASample

__all__ = ["VidQASample"]
