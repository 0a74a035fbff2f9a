"""Send micro-batches between processes through shared memory."""
