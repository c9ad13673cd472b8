"""`pyk completion`: what makes a shell complete commands, options and the names of topics."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

HINTS = {
    "bash": 'eval "$(pyk completion bash)"            in ~/.bashrc',
    "zsh": 'eval "$(pyk completion zsh)"             in ~/.zshrc',
    "fish": "pyk completion fish | source            in ~/.config/fish/config.fish",
}


@click.command(
    epilog="\b\n" + "\n".join(HINTS.values()),
)
@click.argument("shell", type=click.Choice(list(HINTS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes `pyk` in a shell."""
    found = get_completion_class(shell)
    assert found is not None
    complete = found(ctx.find_root().command, {}, "pyk", "_PYK_COMPLETE")
    # Not source(): that asks a bash for its version, and fails where there is none to ask.
    click.echo(complete.source_template % complete.source_vars())
