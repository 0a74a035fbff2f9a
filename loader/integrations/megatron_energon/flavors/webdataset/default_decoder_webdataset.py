from loader.training.factories.webdataset_factory import DefaultDecoderWebdatasetFactory

__all__ = ["DefaultDecoderWebdatasetFactory"]
