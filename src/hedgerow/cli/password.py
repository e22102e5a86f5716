"""`hedgerow password`: the settings of a user who may log in to the dashboard."""

from __future__ import annotations

import json
import sys
from typing import Annotated, get_args

import typer
from typer import Argument, Option

from hedgerow.errors import HedgerowError
from hedgerow.settings.tables import AdminRole


def run(
    name: Annotated[str, Argument(metavar="NAME", help="Name of the user.")],
    role: Annotated[
        AdminRole, Option(metavar="|".join(get_args(AdminRole)), help="A viewer cannot change anything.")
    ] = "operator",
) -> None:
    """
    Ask for a password and print the settings of a user of the dashboard.

    They contain a hash of the password. Without a terminal the password is the first line of standard input.
    """
    if not name.strip():
        raise HedgerowError("the name of a user must not be empty")
    if sys.stdin.isatty():
        password = str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    typer.echo(user_settings(name.strip(), password, role), nl=False)


def user_settings(name: str, password: str, role: AdminRole = "operator") -> str:
    """Return the settings of a user. Raise HedgerowError if the password is too short."""
    from hedgerow.web.admin.passwords import MIN_LENGTH, hash_password

    if len(password) < MIN_LENGTH:
        raise HedgerowError(f"a password needs at least {MIN_LENGTH} characters")
    return (
        f"[[admin.users]]\nname = {json.dumps(name, ensure_ascii=False)}\n"
        f'password = "{hash_password(password)}"\nrole = "{role}"\n'
    )
