"""Parse metadataset YAML files; nothing is looked up."""
