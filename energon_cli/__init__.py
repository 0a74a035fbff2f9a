"""The `energon` command: parses arguments, calls `loader`, and shows the results."""
