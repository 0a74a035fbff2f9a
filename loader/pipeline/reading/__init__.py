"""Read samples: from positions in the order to the bytes of their parts."""
