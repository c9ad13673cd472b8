"""How the command is put together, and how it ends.

Subcommands are imported when they are called: `pyk --help` and each of them start quickly. Whatever
a user can run into is one line on stderr and an exit code, never a traceback:

    0    done
    1    the broker refused, or what was asked for is not there
    2    wrong usage
    3    the broker cannot be reached
    130  interrupted
    141  whoever read the output has stopped reading, as usual tools end by SIGPIPE
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, NoReturn

import click

REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141


class Lazy(NamedTuple):
    """A command that is not imported yet: `pyk.cli.MODULE` has it under its name."""

    module: str
    about: str


class Root(click.Group):
    """The `pyk` command."""

    subcommands: Mapping[str, Lazy] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.subcommands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = self.subcommands.get(cmd_name)
        if found is None:
            return None
        command = getattr(import_module(f"pyk.cli.{found.module}"), found.module)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.about) for name, lazy in self.subcommands.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # The interpreter flushes once more at the end: into nothing, or it would complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(BROKEN_PIPE)
        return result

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> NoReturn:
        run = super().main
        code = exit_code(lambda: run(args, prog_name, complete_var, standalone_mode=False))
        sys.exit(code)


def exit_code(run: Callable[[], object]) -> int:
    """Run a command, and say in one line what went wrong with it."""
    try:
        code = run()
    except click.exceptions.NoArgsIsHelpError as asked:
        click.echo(asked.ctx.get_help())
        return USAGE
    except click.UsageError as wrong:
        path = wrong.ctx.command_path if wrong.ctx else "pyk"
        message = f"{_sentence(wrong.format_message())} See {path} --help."
        return complain(USAGE, message, command=path)
    except click.ClickException as refused:
        return complain(refused.exit_code, refused.format_message())
    except click.Abort:
        return INTERRUPTED
    except Exception as failed:
        return _judge(failed)
    return code if isinstance(code, int) else 0


def _judge(failed: Exception) -> int:
    """The exit code of an error, which is told. What is no user's doing is raised again."""
    # Imported here, since most calls have no need to know what can go wrong.
    from pyk.client.connection import Unreachable
    from pyk.errors import ErrorCode, KafkaError, ProtocolError

    match failed:
        case Unreachable():
            hint = f"Is a broker there? `pyk doctor -b {failed.address}` looks into it."
            return complain(UNREACHABLE, f"cannot reach {failed}. {hint}")
        case KafkaError(code=ErrorCode.NETWORK_EXCEPTION):
            return complain(UNREACHABLE, f"{failed}. `pyk doctor` looks into it.")
        case KafkaError(message=None):
            return complain(REFUSED, f"the broker refuses: {failed.code.name}")
        case KafkaError():
            return complain(REFUSED, f"{_one_line(str(failed))} ({failed.code.name})")
        case ProtocolError():
            return complain(REFUSED, f"what the broker sent cannot be read: {failed}")
        case UnicodeEncodeError():
            return complain(USAGE, "an argument is not UTF-8")
        case OSError() if failed.filename is not None:
            return complain(REFUSED, f"{failed.filename}: {failed.strerror}")
    raise failed


def complain(code: int, message: str, *, command: str = "pyk") -> int:
    click.echo(f"{command}: {_one_line(message)}", err=True)
    return code


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _sentence(text: str) -> str:
    plain = _one_line(text)
    return plain if plain.endswith((".", "?", "!")) else f"{plain}."
