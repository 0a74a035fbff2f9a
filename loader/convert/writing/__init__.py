"""Write tar shards with their index, and datasets that are prepared at the end."""
