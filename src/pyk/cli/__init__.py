"""The `pyk` command."""

from __future__ import annotations

import logging

import click

from pyk import __version__


@click.group()
@click.version_option(__version__, prog_name="pyk")
def main() -> None:
    """A broker that Apache Kafka clients use as they use Kafka."""


@main.command()
@click.option("--host", default="localhost", show_default=True, help="The name to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="0 picks a free port and says which.",
)
def serve(host: str, port: int) -> None:
    """Run a broker until it is interrupted."""
    import trio

    from pyk import broker

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        trio.run(broker.serve, host, port, announce)
    except OSError as failed:
        raise click.ClickException(f"cannot listen on {host}:{port}: {failed}") from failed


def announce(host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"pyk {__version__} listens on {shown}:{port}")
