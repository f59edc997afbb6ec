"""FRESH: experience memory for tool-using agents."""
