from loader.training.webdatasets import VQAOCRWebdataset

__all__ = ["VQAOCRWebdataset"]
