"""Worker processes that make micro-batches, and reports of workers that hang or die."""
