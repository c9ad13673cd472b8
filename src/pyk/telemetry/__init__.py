"""What a broker shows of itself to those who run it: figures, and whether it is well."""
