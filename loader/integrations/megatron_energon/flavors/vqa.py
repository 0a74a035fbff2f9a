from loader.samples.types import VQASample

__all__ = ["VQASample"]
