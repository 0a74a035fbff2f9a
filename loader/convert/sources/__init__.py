"""List and read the samples of sources: folders of files, tables, archives, datasets."""
