"""
The ways by which an alert reaches the operator: a webhook, in plain JSON or as Slack and Mattermost read it, and mail.

The address of a webhook and the password of a mail account are secrets: no message contains them.
"""

from __future__ import annotations

import json
import smtplib
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Literal

import msgspec

from hedgerow import __version__
from hedgerow.errors import HedgerowError
from hedgerow.settings.checks import split_listen
from hedgerow.settings.operation_tables import AlertsSettings

AlertKind = Literal["campaign", "crawl", "challenges", "complaints", "store", "site", "certificate", "test"]

_TIMEOUT = 10.0
_OK_STATUS = range(200, 300)
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Alert(msgspec.Struct, frozen=True):
    """Something that the operator should know. Alerts with the same *kind* and *subject* are about the same thing."""

    kind: AlertKind
    subject: str
    text: str
    at: float
    site: str = ""
    """The machine, or what the operator calls the site."""


class ChannelError(HedgerowError):
    """An alert could not be sent; the message names the channel and contains no secret."""


def send(settings: AlertsSettings, alert: Alert) -> Iterator[tuple[str, ChannelError | None]]:
    """Send an alert by all channels of the settings. Yield the name of each, and why it failed."""
    for name, is_set, deliver in (
        ("webhook", bool(settings.webhook), _post),
        ("mail", bool(settings.mail_to), _mail),
    ):
        if is_set:
            try:
                deliver(settings, alert)
            except ChannelError as error:
                yield name, error
            else:
                yield name, None


def webhook_body(settings: AlertsSettings, alert: Alert) -> bytes:
    """Return what is posted. Slack gives `<`, `>` and `&` a meaning, and user agents may contain them."""
    if settings.webhook_format == "slack":
        return json.dumps({"text": f"*{alert.site}*: {alert.text}".translate(_ESCAPES)}).encode()
    return json.dumps({**msgspec.to_builtins(alert), "version": __version__}).encode()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A webhook that redirects is a wrong address; the alert is not sent elsewhere."""

    def redirect_request(self, *_args: object) -> None:
        return None


def _post(settings: AlertsSettings, alert: Alert) -> None:
    headers = {"content-type": "application/json", "user-agent": f"hedgerow/{__version__}"}
    # The settings allow http and https only.
    request = urllib.request.Request(settings.webhook, webhook_body(settings, alert), headers)  # noqa: S310
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=_TIMEOUT) as response:
            status = response.status
    except urllib.error.HTTPError as error:
        error.close()
        raise ChannelError(f"the webhook answered with status {error.code}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        # Of a reason only its kind: its text may quote the address.
        raise ChannelError(f"the webhook cannot be reached: {type(reason).__name__}") from None
    if status not in _OK_STATUS:
        raise ChannelError(f"the webhook answered with status {status}")


def _mail(settings: AlertsSettings, alert: Alert) -> None:
    host, port = split_listen(settings.mail_server)
    message = EmailMessage()
    message["From"] = settings.mail_from or f"hedgerow@{socket.gethostname()}"
    message["To"] = ", ".join(settings.mail_to)
    message["Subject"] = f"[Hedgerow] {alert.site}: {alert.text.partition('. ')[0]}".replace("\n", " ")[:180]
    message["Date"] = formatdate(alert.at)
    message["Message-ID"] = make_msgid(domain="hedgerow.invalid")
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(f"{alert.text}\n\n{alert.site}, Hedgerow {__version__}\n")
    context = ssl.create_default_context()
    try:
        if settings.mail_tls == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=_TIMEOUT, context=context)
        else:
            server = smtplib.SMTP(host, port, timeout=_TIMEOUT)
        with server:
            if settings.mail_tls == "starttls":
                server.starttls(context=context)
            if settings.mail_user:
                server.login(settings.mail_user, settings.mail_password)
            server.send_message(message)
    except smtplib.SMTPResponseException as error:
        raise ChannelError(f"the mail server answered with status {error.smtp_code}") from None
    except (OSError, smtplib.SMTPException) as error:
        raise ChannelError(f"the mail server cannot be used: {type(error).__name__}") from None
