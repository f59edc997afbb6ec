"""Recall, candidates and features: from a step of a run to the memory nodes worth ranking for it."""
