"""Share groups at the leaders of partitions: whose records are out, and what becomes of them."""
