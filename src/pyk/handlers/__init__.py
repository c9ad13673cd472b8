"""What the broker answers: one file per API, and one table of them all."""
