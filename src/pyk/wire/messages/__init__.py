"""One module per API: its request, its response and their parts, each declared for all versions."""
