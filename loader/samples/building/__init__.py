"""Build samples of decoded parts, as ``dataset.yaml`` describes."""
