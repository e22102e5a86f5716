"""Alerts by webhook and mail: what arrives, and that faults name no secret."""

from __future__ import annotations

import email
import json
import sys
from email.policy import default

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from hedgerow.cli.main import main
from hedgerow.errors import SettingsError
from hedgerow.settings import read_settings
from hedgerow.settings.operation_tables import AlertsSettings
from hedgerow.web.alert_channels import Alert, send, webhook_body
from real.servers import free_port

from .test_alerts import webhook

ALERT = Alert("crawl", "crawl", "The site is being crawled. Agent <b>&x</b>\nBcc: e@e.example", 1_800_000_000.0, "shop")


class Inbox:
    """Keeps what a mail server receives."""

    def __init__(self) -> None:
        self.mails = []

    async def handle_DATA(self, _server, _session, envelope):  # noqa: N802 - a name of aiosmtpd
        self.mails.append((envelope.rcpt_tos, email.message_from_bytes(envelope.content, policy=default)))
        return "250 OK"


@pytest.fixture
def mail():
    inbox = Inbox()
    controller = Controller(inbox, hostname="127.0.0.1", port=free_port())
    controller.start()
    yield f"127.0.0.1:{controller.port}", inbox
    controller.stop()


def test_a_mail_arrives_whole(mail):
    server, inbox = mail
    wanted = AlertsSettings(mail_to=("a@example.org", "b@example.org"), mail_server=server, mail_from="h@example.org")
    assert list(send(wanted, ALERT)) == [("mail", None)]
    ((to, message),) = inbox.mails
    assert to == ["a@example.org", "b@example.org"]
    assert message["subject"] == "[Hedgerow] shop: The site is being crawled"
    assert message["auto-submitted"] == "auto-generated"
    assert message["bcc"] is None
    assert "Agent <b>&x</b>" in message.get_content()


def test_both_channels_are_used_and_one_may_fail(mail):
    server, inbox = mail
    with webhook(500) as (url, _):
        wanted = AlertsSettings(webhook=url, mail_to=("a@example.org",), mail_server=server)
        (_, error), second = send(wanted, ALERT)
    assert str(error) == "the webhook answered with status 500"
    assert second == ("mail", None)
    assert len(inbox.mails) == 1


def test_a_webhook_gets_json_or_what_slack_reads():
    plain = json.loads(webhook_body(AlertsSettings(), ALERT))
    assert plain["kind"] == "crawl"
    assert plain["text"] == ALERT.text
    slack = json.loads(webhook_body(AlertsSettings(webhook_format="slack"), ALERT))
    assert list(slack) == ["text"]
    assert slack["text"].startswith("*shop*: The site is being crawled. Agent &lt;b&gt;&amp;x")


@pytest.mark.parametrize(
    "wanted",
    [
        AlertsSettings(webhook="http://127.0.0.1:9/T0PSECRET"),
        AlertsSettings(mail_to=("a@example.org",), mail_server="127.0.0.1:9", mail_user="u", mail_password="T0PSECRET"),
        AlertsSettings(mail_to=("a@example.org",), mail_server="127.0.0.1:9", mail_tls="tls"),
    ],
)
def test_a_channel_that_is_away_is_one_line_without_secrets(wanted):
    ((_, error),) = send(wanted, ALERT)
    assert "cannot be" in str(error)
    assert "T0PSECRET" not in str(error)
    assert "\n" not in str(error)


def test_a_server_without_starttls_gets_no_password(mail):
    server, inbox = mail
    wanted = AlertsSettings(mail_to=("a@example.org",), mail_server=server, mail_tls="starttls", mail_user="u")
    ((_, error),) = send(wanted, ALERT)
    assert error is not None
    assert inbox.mails == []


def test_a_wrong_password_is_told_without_it():
    """Where the server offers a log-in without TLS, for a test: the settings do not allow this."""
    controller = Controller(
        Inbox(), hostname="127.0.0.1", port=free_port(), auth_require_tls=False,
        authenticator=lambda *_: AuthResult(success=False),
    )  # fmt: skip
    controller.start()
    try:
        wanted = AlertsSettings(
            mail_to=("a@example.org",),
            mail_server=f"127.0.0.1:{controller.port}",
            mail_user="u",
            mail_password="T0PSECRET",
        )
        ((_, error),) = send(wanted, ALERT)
    finally:
        controller.stop()
    assert str(error).startswith("the mail server ")
    assert "T0PSECRET" not in str(error)


def test_the_command_sends_a_test_and_says_what_came_of_it(mail, tmp_path, monkeypatch, capsys):
    server, inbox = mail
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path))

    def run(text: str) -> tuple[int, str, str]:
        (tmp_path / "hedgerow.toml").write_text(text)
        monkeypatch.setattr(sys, "argv", ["hedgerow", "alerts", "test", "--config", "hedgerow.toml"])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out, said.err

    status, _, err = run("")
    assert (status, "set webhook or mail_to in [alerts]" in err) == (2, True)
    with webhook() as (url, received):
        text = f'[alerts]\nwebhook = "{url}"\nmail_to = ["a@example.org"]\nmail_server = "{server}"\n'
        status, out, _ = run(text)
        assert status == 0
        assert "webhook: accepted\nmail: accepted\n" in out
        assert [message["kind"] for message in received] == ["test"]
        assert len(inbox.mails) == 1
    status, out, err = run(text)
    assert status == 1
    assert "mail: accepted" in out
    assert "the test alert was not accepted by webhook" in err
    assert "T0PSECRET" not in err


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('webhook = "ftp://x/T0PSECRET"', "alerts.webhook: is not an address that starts with https://"),
        ('mail_to = ["nobody"]', "alerts.mail_to: 'nobody' is not a mail address"),
        ('mail_to = ["a@b\\nBcc: c@d"]', "is not a mail address"),
        ('mail_user = "u"\nmail_to = ["a@b"]', "alerts.mail_tls: must be starttls or tls"),
        ("per_hour = 0", "alerts.per_hour"),
        ('kinds = ["nothing"]', "alerts.kinds"),
        ("mail_password = 5", "alerts.mail_password: must be text in quotes, is a value of another type"),
    ],
)
def test_faulty_settings_are_one_line_without_secrets(text, fault):
    with pytest.raises(SettingsError) as raised:
        read_settings(f"[alerts]\n{text}\n", environment={})
    assert fault in str(raised.value)
    assert "T0PSECRET" not in str(raised.value)
