"""Compare the mix of datasets of a saved state with that of a run, and continue with a mix that was edited.

======================  ====================================================================================
``edited_chain.py``     the chain with which a run continues
``comparison.py``       the refusal of a state of another dataset or pipeline
``differences.py``      the differences between runs, by name; ``energon diff`` lists them, too
``change.py``           the change of a mix whose blends stay of one kind
``restructured``        the change of a mix whose blends became blends of another kind
``saved_place.py``      a place in the chain of a state, with the states of the lanes there
``leaf_match.py``       the datasets of a reader before and after, and how far each was read
``leaves.py``           a dataset of a reader, and what became of it
``lost_samples.py``     the samples that a run loses with a dataset
``dataset_shares.py``   the datasets of a state, and their shares
``saved_weights.py``    the check of the weights in a state
======================  ====================================================================================
"""
