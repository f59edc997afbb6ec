"""Memories of every kind behind one interface, to be compared on the same runs."""

from inference.baselines.base import Advice, Memory, Setting

__all__ = ["Advice", "Memory", "Setting"]
