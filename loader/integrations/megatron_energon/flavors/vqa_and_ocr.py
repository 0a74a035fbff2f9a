from loader.training.factories.webdatasets import VQAOCRWebdataset

__all__ = ["VQAOCRWebdataset"]
