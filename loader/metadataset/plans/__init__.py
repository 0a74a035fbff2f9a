"""Resolve a metadataset to the datasets it loads, with weights and subsets."""
