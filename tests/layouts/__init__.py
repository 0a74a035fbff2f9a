"""Real layouts of data, each with its right answer. A module of this folder registers layouts by :func:`layout`."""
