"""Account for the input of a command, and distinguish what its files really are.

- :mod:`kinds` distinguishes pictures, sound, video, texts and other files by their names and first bytes.
"""
