"""Measurements side by side: pyk and its alternatives, in one run on one machine."""
