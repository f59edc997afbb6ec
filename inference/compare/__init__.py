"""Memories of every kind compared on the same recorded runs, tasks held out."""
