from loader.training.webdataset_factory import DefaultDecoderWebdatasetFactory

__all__ = ["DefaultDecoderWebdatasetFactory"]
