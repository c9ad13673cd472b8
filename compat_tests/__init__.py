"""Tests that judge pyk by other people's programs."""
