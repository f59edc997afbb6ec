"""Fits the reranker to recorded runs and freezes the memory."""
