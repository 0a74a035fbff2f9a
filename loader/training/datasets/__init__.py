"""Open the datasets of a run and build the chain of stages over them."""
