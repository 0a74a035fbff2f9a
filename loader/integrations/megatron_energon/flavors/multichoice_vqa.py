from loader.samples.types import MultiChoiceVQASample
from loader.training.webdatasets import MultiChoiceVQAWebdataset

__all__ = ["MultiChoiceVQASample", "MultiChoiceVQAWebdataset"]
