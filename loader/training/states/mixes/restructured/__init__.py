"""Continue a run whose blends became blends of another kind: by volume instead of by samples, or the reverse.

======================  ====================================================================================
``saved_streams.py``    the datasets of a state, and the position of each in every lane
``lane_states.py``      a lane's state → the state of the new chain
``restructure.py``      the comparison of both chains, and the entry in the states of the run
======================  ====================================================================================
"""

from .restructure import Restructured, find_restructured

__all__ = ["Restructured", "find_restructured"]
