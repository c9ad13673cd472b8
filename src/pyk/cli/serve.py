"""`pyk serve`: a broker in the foreground."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pyk import __version__

if TYPE_CHECKING:
    from pyk.daemon import Opened

HTTP_PORT: Final = 9644


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
@click.option(
    "--http-port",
    type=click.IntRange(0, 65535),
    envvar="PYK_HTTP_PORT",
    help="Where /metrics, /live and /ready are.  [default: 9644, or a free one if that is taken]",
)
@click.option(
    "--http-host",
    default="localhost",
    envvar="PYK_HTTP_HOST",
    show_default=True,
    help="Anyone who reaches it sees the names of topics.",
)
@click.option("--no-http", is_flag=True, help="Serve no metrics.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    envvar="PYK_LOG_FORMAT",
    show_default=True,
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    envvar="PYK_LOG_LEVEL",
    show_default=True,
)
def serve(
    config: Path | None,
    data_dir: Path | None,
    host: str | None,
    port: int | None,
    options: tuple[str, ...],
    http_port: int | None,
    http_host: str,
    no_http: bool,
    log_format: str,
    log_level: str,
) -> None:
    """Run a broker until it is interrupted.

    Configuration comes from the file, from KAFKA_* variables and from the options, the later over
    the earlier.
    """
    import trio

    from pyk.cli.static import places
    from pyk.config.settings import BrokerSettings
    from pyk.config.sources import gather
    from pyk.daemon import HttpWish
    from pyk.daemon import serve as serve_until_a_signal
    from pyk.disk import SyncFailed
    from pyk.telemetry.logs import configure

    configure(log_format, log_level)
    try:
        found = gather(
            *(place.values for place in places(config, options)),
            {"log.dirs": str(data_dir)} if data_dir else {},
            listener(host, port),
        )
        if found.warning:
            logging.warning(found.warning)
        settings = BrokerSettings(found.values)
        http = None if no_http else HttpWish(http_host, http_port, HTTP_PORT)
        trio.run(serve_until_a_signal, settings, announce, http)
    except (Exception, SyncFailed) as failed:
        raise click.ClickException(verdict(failed)) from failed


def verdict(failed: BaseException) -> str:
    """What has kept a broker from starting, or has ended it: docs/operations.md has the list. What
    is not on it is a bug, of which the log has the traceback."""
    from pyk.disk import DirectoryInUse, SyncFailed
    from pyk.errors import KafkaError
    from pyk.log.checkpoints import DamagedCheckpoint
    from pyk.metadata.journal import DamagedStore
    from pyk.server.binding import CannotListen
    from pyk.telemetry.http import CannotListen as CannotListenForHttp

    match failed:
        case KafkaError() | DirectoryInUse() | DamagedCheckpoint() | DamagedStore():
            return str(failed)
        case CannotListen():
            return str(failed)
        case CannotListenForHttp():
            return f"{failed}; choose another --http-port, or --no-http"
        case SyncFailed():
            said = f"the broker has ended, since a write to the disk failed: {failed}"
            logging.critical(said)
            return f"{said}. The next start reads what is on the disk"
        case OSError() if failed.filename is not None:
            return f"{failed.filename}: {failed.strerror}"
    logging.critical("the broker has ended over a bug", exc_info=failed)
    return f"the broker has ended over a bug: {type(failed).__name__}: {failed}"


def listener(host: str | None, port: int | None) -> dict[str, str]:
    if host is None and port is None:
        return {}
    shown = host or "localhost"
    shown = f"[{shown}]" if ":" in shown else shown
    return {"listeners": f"PLAINTEXT://{shown}:{9092 if port is None else port}"}


def announce(opened: Opened) -> None:
    from pyk.telemetry.systemd import notify

    notify("READY=1")
    shown = [_joined(*address) for address in opened.addresses]
    for address in shown:
        click.echo(f"pyk {__version__} listens on {address}")
    if opened.http is not None:
        click.echo(f"Metrics are at http://{_joined(*opened.http)}/metrics")
    where = "" if shown[0] == "localhost:9092" else f" -b {shown[0]}"
    click.echo("To try it, in another terminal:")
    click.echo(f"  echo hello | pyk produce greetings{where}")
    click.echo(f"  pyk consume greetings{where}")


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
