"""Partition logs: segments, indexes and the state derived from them. Synchronous on purpose."""
