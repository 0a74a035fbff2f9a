"""Compare the mix of datasets of a saved state with a run's, and continue with a mix that was edited.

======================  ====================================================================================
``edited_chain.py``     the chain with which a run continues, or the refusal of a state of another dataset
``differences.py``      the differences between runs, by name; ``energon diff`` lists them, too
``change.py``           the change of a mix: datasets and weights; the unit of weights stays
``leaves.py``           a dataset of a reader, and what became of it
======================  ====================================================================================
"""
