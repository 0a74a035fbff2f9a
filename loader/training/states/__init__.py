"""Save, merge, split, check and describe the states of a run."""
