from loader.samples.types import MultiChoiceVQASample

__all__ = ["MultiChoiceVQASample"]
