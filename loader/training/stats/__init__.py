"""Statistics of a loader: what the training loop waited for, and what its workers did."""
