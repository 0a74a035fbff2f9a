from loader.samples.types import MultiChoiceVQASample
from loader.training.factories.webdatasets import MultiChoiceVQAWebdataset

__all__ = ["MultiChoiceVQASample", "MultiChoiceVQAWebdataset"]
