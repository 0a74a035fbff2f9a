"""The commands, in the groups of `energon --help`: make a dataset, look at one, change one, run a training."""
