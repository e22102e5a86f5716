"""`hedgerow alerts test`: send a test alert by all channels."""

from __future__ import annotations

import time

import typer

from hedgerow.cli.main import Config
from hedgerow.cli.service import Directory, SiteName, find_site
from hedgerow.errors import HedgerowError, SettingsError
from hedgerow.web.alert_channels import Alert, send
from hedgerow.web.alerts import site_name

app = typer.Typer()


@app.callback()
def _group() -> None:
    pass


@app.command("test")
def send_test(config: Config = None, directory: Directory = None, site: SiteName = "") -> None:
    """Send a test alert by every channel of the settings, and say which ones accepted it."""
    settings = find_site(config, directory, site, changes=False)
    if not settings.alerts.enabled:
        raise SettingsError(["no alerts are sent: set webhook or mail_to in [alerts]"])
    alert = Alert("test", "test", "This is a test. Alerts of Hedgerow arrive here.", time.time(), site_name(settings))
    failed = []
    for channel, error in send(settings.alerts, alert):
        typer.echo(f"{channel}: {error or 'accepted'}", err=error is not None)
        failed += [channel] if error is not None else []
    if failed:
        raise HedgerowError(f"the test alert was not accepted by {' and '.join(failed)}")
