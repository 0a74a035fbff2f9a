"""Define the contract of stages: interface, lanes, item ids, state schemas, hooks, failures and random numbers."""
