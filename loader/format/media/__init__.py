"""Collect and read metadata of images, audio and video."""
