"""Worker processes that make micro-batches, and reports of those that hang or die."""
