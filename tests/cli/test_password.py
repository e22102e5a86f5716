"""`hedgerow password`: what it prints are settings, and the password fits."""

from __future__ import annotations

from typer.testing import CliRunner

from driving import settings
from hedgerow.cli.main import app
from hedgerow.web.admin.passwords import is_password


def test_what_is_printed_are_settings_of_the_user():
    result = CliRunner().invoke(app, ["password", 'Zoë "Z"', "--role", "viewer"], input="a long password\n")
    assert result.exit_code == 0, result.output
    (user,) = settings(result.stdout).admin.users
    assert (user.name, user.role) == ('Zoë "Z"', "viewer")
    assert is_password("a long password", user.password)


def test_a_short_password_is_refused():
    result = CliRunner().invoke(app, ["password", "alice"], input="short\n")
    assert result.exit_code == 1
    assert "at least 10 characters" in str(result.exception)
