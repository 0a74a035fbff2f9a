"""``energon completion``: the script that lets a shell complete commands."""
