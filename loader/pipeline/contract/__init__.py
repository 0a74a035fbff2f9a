"""Define what every stage is: its interface, items, hooks, failures and random numbers."""
