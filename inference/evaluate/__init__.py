"""Measurements of a frozen memory on runs that it was not mined from."""
