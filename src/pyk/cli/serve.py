"""`pyk serve`: a broker in the foreground."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pyk import __version__

if TYPE_CHECKING:
    from pyk.broker import Opened


@click.command()
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A server.properties file.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the logs are kept.  [default: log.dirs, or else ./data]",
)
@click.option("--host", help="The name to listen on.  [default: localhost]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="0 picks a free port and says which.  [default: 9092]",
)
@click.option(
    "-o", "options", multiple=True, metavar="KEY=VALUE", help="Any of Kafka's broker keys."
)
def serve(
    config: Path | None,
    data_dir: Path | None,
    host: str | None,
    port: int | None,
    options: tuple[str, ...],
) -> None:
    """Run a broker until it is interrupted.

    Configuration comes from the file, from KAFKA_* variables and from the options, the later over
    the earlier.
    """
    import trio

    from pyk import broker
    from pyk.cli.static import places
    from pyk.config.settings import BrokerSettings
    from pyk.config.sources import gather
    from pyk.disk import DirectoryInUse
    from pyk.errors import KafkaError

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        found = gather(
            *(place.values for place in places(config, options)),
            {"log.dirs": str(data_dir)} if data_dir else {},
            listener(host, port),
        )
        if found.warning:
            logging.warning(found.warning)
        settings = BrokerSettings(found.values)
        trio.run(broker.serve, settings, announce)
    except (KafkaError, DirectoryInUse) as refused:
        raise click.ClickException(str(refused)) from refused
    except OSError as failed:
        where = found.values["listeners"].replace("PLAINTEXT://", "")
        raise click.ClickException(f"cannot listen on {where}: {failed}") from failed


def listener(host: str | None, port: int | None) -> dict[str, str]:
    if host is None and port is None:
        return {}
    shown = host or "localhost"
    shown = f"[{shown}]" if ":" in shown else shown
    return {"listeners": f"PLAINTEXT://{shown}:{9092 if port is None else port}"}


def announce(opened: Opened) -> None:
    shown = [
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in opened.addresses
    ]
    for address in shown:
        click.echo(f"pyk {__version__} listens on {address}")
    where = "" if shown[0] == "localhost:9092" else f" -b {shown[0]}"
    click.echo("To try it, in another terminal:")
    click.echo(f"  echo hello | pyk produce greetings{where}")
    click.echo(f"  pyk consume greetings{where}")
