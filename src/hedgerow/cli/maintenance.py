"""`hedgerow check`, `hedgerow migrate` and `hedgerow keys`: settings, stored data and keys of a site."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from hedgerow.cli.main import Config
from hedgerow.cli.output import format_time
from hedgerow.cli.running_service import reload_running
from hedgerow.cli.service import Directory, SiteName, find_site
from hedgerow.errors import ModelError, SettingsError, TlsError
from hedgerow.file_owner import make_directory
from hedgerow.proxy.tls import read_pair
from hedgerow.settings import Settings, load_settings
from hedgerow.settings.dangers import Danger, dangers
from hedgerow.settings.load import line_of
from hedgerow.sqlite_file import is_own_file
from hedgerow.watch.models.bundle import SHIPPED
from hedgerow.web.audit import audit_command
from hedgerow.web.key_file import load_keys, new_key, rotate, write_keys
from hedgerow.web.paths import key_path
from hedgerow.web.watch import build_panels

_DAY = 86_400.0


def check(
    file: Annotated[Path | None, Argument(metavar="FILE", help="Settings file; default ./hedgerow.toml.")] = None,
) -> None:
    path = file or Path("hedgerow.toml")
    settings = load_settings(path)
    sites = {"": settings} | {f"site.{number}.": entry.settings for number, entry in enumerate(settings.site)}
    warnings: dict[str, None] = {}
    notes: dict[str, Danger] = {}
    for prefix, own in sites.items():
        try:
            if not _missing_models(own):
                build_panels(own)
        except ModelError as error:
            raise SettingsError([f"{path}: {prefix}watch: {error}"]) from None
        if faults := [f"{path}: {prefix}{name}: {sentence}" for name, sentence in _foreign_files(own)]:
            raise SettingsError(faults)
        # What a site shares with the top level of the file is said once.
        for name, sentence in (*_readable_secrets(path, own), *_certificate_warnings(path, own)):
            notes.setdefault(sentence + name, (prefix + name, sentence))
        warnings |= dict.fromkeys(_warnings(own))
    typer.echo(f"{path}: no faults")
    text = path.read_text("utf-8-sig")
    for name, sentence in (*dangers(settings), *notes.values()):
        typer.echo(f"{path}:{line_of(text, name)}: warning: {name}: {sentence}", err=True)
    for warning in warnings:
        typer.echo(f"{path}: warning: {warning}", err=True)
    if settings.site:
        _describe_sites(settings)


def _describe_sites(settings: Settings) -> None:
    """Print the hosts of each site, where its requests go, and how much memory all of them may take."""
    for entry in settings.site:
        mode = ", observing only" if entry.settings.observe else ""
        upstream = entry.settings.proxy.upstream or "no upstream"
        typer.echo(f"site {entry.name}: {', '.join(entry.hosts)} -> {upstream}{mode}")
    other = (
        "refused with 421" if settings.unknown_hosts == "refuse" else f"-> {settings.proxy.upstream or 'no upstream'}"
    )
    typer.echo(f"other hosts: {other}")
    most = sum(one.state.memory for one in (settings, *(entry.settings for entry in settings.site)))
    typer.echo(f"counters of {len(settings.site) + 1} sites: at most {most / 1e6:,.0f} MB (state.memory of each)")


def _foreign_files(settings: Settings) -> Iterator[Danger]:
    """Name the stores that are to be in files of other programs. Files that do not exist yet are created."""
    paths = {"ledger.path": settings.ledger.path, "lists.path": settings.lists.path}
    for name, text in paths.items():
        if not text:
            continue
        path = Path(text).expanduser()
        if path.is_dir():
            yield (
                name,
                f"{text!r} is a directory; name a file in it, or leave it empty",
            )
        elif path.exists() and not is_own_file(path):
            yield name, f"{text!r} is a file of something else; name one that does not exist, or leave it empty"


def _certificate_warnings(path: Path, settings: Settings) -> Iterator[Danger]:
    """Warn of the certificate's time and its key's mode. A pair that does not fit is a fault."""
    tls = settings.tls
    if not tls.certificate:
        return
    try:
        facts = read_pair(Path(tls.certificate).expanduser(), Path(tls.key).expanduser())
    except TlsError as error:
        raise SettingsError([f"{path}: tls: {error}"]) from None
    if warning := facts.warning(time.time()):
        yield "tls.certificate", warning
    if Path(tls.key).expanduser().stat().st_mode & stat.S_IROTH:
        yield "tls.key", f"every user of this machine can read it; run: chmod o-r {tls.key}"


def _readable_secrets(path: Path, settings: Settings) -> Iterator[Danger]:
    """Name the secrets in a settings file that every user of the machine can read, unless they come from elsewhere."""
    if not path.stat().st_mode & stat.S_IROTH:
        return
    text = path.read_text("utf-8-sig")
    tokens = {f"serve.clients.{number}.token": client.token for number, client in enumerate(settings.serve.clients)}
    secrets = {
        "privacy.key": settings.privacy.key, "alerts.webhook": settings.alerts.webhook,
        "alerts.mail_password": settings.alerts.mail_password,
        "admin.token": settings.admin.token, "admin.viewer_token": settings.admin.viewer_token,
        "state.password": settings.state.password,
        "challenge.external.secret": settings.challenge.external.secret, **tokens,
    }  # fmt: skip
    for name, secret in secrets.items():
        if secret and secret in text:
            yield name, f"every user of this machine can read it; run: chmod o-r {path}"


def _warnings(settings: Settings) -> Iterator[str]:
    """Say what is allowed, and still may not be what the operator wants."""
    for name, model in _missing_models(settings).items():
        yield f"watch.{name}: there is no file {model!r} here"
    for name in ("asn_file", "country_file"):
        file = getattr(settings.lists, name)
        if file and not Path(file).expanduser().is_file():
            yield f"lists.{name}: there is no file {file!r} here"
    if settings.lists.networks and not settings.lists.enabled:
        yield "lists.networks: these rules have no effect while lists are switched off"
    if settings.bots.signers and not settings.bots.hosts:
        yield "bots.hosts: name the hosts of this site, or no signature is accepted"
    marker = settings.marker
    is_hidden = settings.identity.trusted_proxies and not marker.never_opaque
    if is_hidden and "opaque" in {marker.mode, *(rule.mode for rule in marker.rules)}:
        yield (
            "marker: an opaque link hides its path from the server in front of Hedgerow, whose path rules (access, "
            f"limits, caching) therefore do not apply to {marker.prefix}...; use mode clean, name these paths in "
            "marker.never_opaque, or have such rules behind Hedgerow"
        )


def _missing_models(settings: Settings) -> dict[str, str]:
    """Return the models that are named as files and are not there. The settings may be checked on another machine."""
    named = {name: getattr(settings.watch, name) for name in ("model", "window_model", "shadow")}
    return {
        name: model
        for name, model in named.items()
        if model and model not in SHIPPED and not Path(model).expanduser().is_file()
    }


def migrate(config: Config = None, directory: Directory = None, site: SiteName = "") -> None:
    from hedgerow.ledger.sqlite import migrate as migrate_ledger
    from hedgerow.state.sqlite.journal import connect
    from hedgerow.web.paths import ledger_path, state_path
    from hedgerow.web.stores import import_postgresql

    settings = find_site(config, directory, site, place="ledger")
    files = [ledger_path(settings), state_path(settings)]
    if not settings.ledger.url and not settings.lists.url and not any(path.is_file() for path in files):
        typer.echo(f"nothing to migrate in {files[1].parent}; a gate creates its files itself")
        return
    for url in dict.fromkeys(filter(None, (settings.ledger.url, settings.lists.url))):
        names = " and ".join(name for name in ("ledger", "lists") if getattr(settings, name).url == url)
        _print_versions(f"PostgreSQL ({names})", *import_postgresql().migrate(url))
    if not settings.ledger.url and settings.ledger.enabled and ledger_path(settings).is_file():
        _print_versions(f"the ledger {ledger_path(settings)}", *migrate_ledger(ledger_path(settings)))
    if not settings.state.url and state_path(settings).is_file():
        connect(state_path(settings)).close()
        typer.echo(f"{state_path(settings)} is up to date")


def _print_versions(store: str, before: int, after: int) -> None:
    typer.echo(
        f"{store} is up to date (version {after})" if before == after else f"{store}: version {before} to {after}"
    )


keys = typer.Typer()


@keys.command()
def new() -> None:
    """Print a new key, for the environment variable HEDGEROW_KEYS or for your own key file."""
    typer.echo(write_keys([new_key(time.time())]), nl=False)


@keys.command("rotate")
def rotate_(
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
    show: Annotated[bool, Option("--show", help="Only list the numbers and ages of the keys.")] = False,
) -> None:
    """
    Add a key and use it for new links. Links with older keys stay valid until they are too old.

    A running Hedgerow with an admin listener uses the new key at once.
    """
    settings = find_site(config, directory, site, changes=not show)
    path = key_path(settings)
    make_directory(path.parent)
    now = time.time()
    known = load_keys(path, now) if show else rotate(path, now, settings.marker.overlap_days * _DAY)
    for key in sorted(known, key=lambda key: key.made_at):
        typer.echo(f"key {key.number}, made {format_time(key.made_at)}")
    if not show:
        audit_command(settings, "keys.rotate", f"key {known[-1].number}")
        typer.echo(f"{path}: {len(known)} keys; the last one encrypts new links; {reload_running(settings)}")
