"""The terminal: its keys, its abilities, and samples with pictures as lines of it."""
