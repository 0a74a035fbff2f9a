"""Parse and write the YAML and JSON files of ``.nv-meta``."""
