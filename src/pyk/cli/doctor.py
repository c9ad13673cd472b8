"""`pyk doctor`: what a client meets on its way to every broker, and what to do about it."""

from __future__ import annotations

import shutil
import textwrap

import click

from pyk.cli.diagnosis import Finding, Status, diagnose
from pyk.cli.options import with_settings
from pyk.cli.output import Field, Format, Row, format_option, printable, show
from pyk.cli.root import UNREACHABLE
from pyk.client.settings import ClientSettings

CONNECT_TIMEOUT_MAX = 3.0
TIMEOUT_MAX = 5.0

FINDINGS = (
    Field("role", "bootstrap, or broker and its number"),
    Field("address", "what was tried"),
    Field("step", "resolve, connect, versions, metadata, advertised, reach or identity"),
    Field("status", "ok, warning or failed"),
    Field("detail", "what was found"),
    Field("advice", "what to do about it"),
)


@click.command()
@format_option(*FINDINGS)
@with_settings
def doctor(settings: ClientSettings, format_: Format) -> None:
    """Try what a client does: find the bootstrap servers, talk to them, and then to every broker
    at the address that it advertises. Say what fails, and why.

    The exit code is 3 if anything that a client needs cannot be reached.
    """
    is_text = format_ in ("text", "wide")
    findings = []
    place = None
    for finding in diagnose(
        settings.bootstrap,
        min(settings.connect_timeout, CONNECT_TIMEOUT_MAX),
        min(settings.request_timeout, TIMEOUT_MAX),
    ):
        findings.append(finding)
        if is_text:
            if (finding.role, finding.address) != place:
                place = finding.role, finding.address
                click.echo(f"{finding.role} {finding.address}")
            show_finding(finding)
    is_sick = any(finding.status is Status.FAILED for finding in findings)
    if is_text:
        worried = any(finding.status is Status.WARNING for finding in findings)
        click.echo(
            "Clients here cannot use this cluster as it is."
            if is_sick
            else "It works from here; see the warnings."
            if worried
            else "Every broker answers at the address that it advertises."
        )
    else:
        show([row_of(finding) for finding in findings], FINDINGS, format_)
    if is_sick:
        raise click.exceptions.Exit(UNREACHABLE)


def show_finding(finding: Finding) -> None:
    mark = finding.status.value.ljust(8)
    click.echo(f"  {mark}{finding.step.ljust(12)}{printable(finding.detail)}")
    if finding.advice:
        width = max(min(shutil.get_terminal_size().columns, 100), 60)
        indent = " " * 22
        wrapped = textwrap.fill(
            printable(finding.advice), width, initial_indent=indent, subsequent_indent=indent
        )
        click.echo(wrapped)


def row_of(finding: Finding) -> Row:
    return {
        "role": finding.role,
        "address": str(finding.address),
        "step": finding.step,
        "status": finding.status.value,
        "detail": finding.detail,
        "advice": finding.advice,
    }
