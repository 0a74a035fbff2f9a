"""Make micro-batches in worker processes and report the ones that hang or die."""
