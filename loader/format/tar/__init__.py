"""Scan tar files, and read and write tar headers, member names and ``.tar.idx`` files."""
