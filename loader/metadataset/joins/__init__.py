"""Prepare and open the rows of joined datasets."""
