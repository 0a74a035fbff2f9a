from loader.samples.decoder import SampleDecoder
from loader.samples.file_store_decoder import FileStoreDecoder

__all__ = ["FileStoreDecoder", "SampleDecoder"]
