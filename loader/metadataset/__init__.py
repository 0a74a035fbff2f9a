"""Several datasets mixed: what metadataset files say, as plain data."""
