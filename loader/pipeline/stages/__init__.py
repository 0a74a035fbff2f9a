"""Implement the stages of a pipeline, one public stage a file."""
