"""Parse metadataset YAML files, without resolving paths or opening datasets."""
