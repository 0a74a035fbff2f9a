"""The `energon` command: parse the arguments, call `loader`, show what it says."""
