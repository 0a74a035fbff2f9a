"""Decode the bytes of parts."""
