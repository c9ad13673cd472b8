"""`python -m pyk` is the `pyk` command."""

from pyk.cli import main

main(prog_name="pyk")
