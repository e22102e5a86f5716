"""
Alerts: a background thread looks at the metrics of a site twice a minute, and tells the operator what needs attention.

Each thing is told once, and again only after `repeat_after`. At most `per_hour` alerts are sent in an hour. What was
sent is in a small file in the state directory, so that neither a restart nor a second process repeats it. Nothing here
runs while a request is served.
"""

from __future__ import annotations

import fcntl
import logging
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple, Protocol

import msgspec

from hedgerow.core.decision import Campaign
from hedgerow.settings import Settings
from hedgerow.settings.operation_tables import AlertsSettings
from hedgerow.web.alert_channels import Alert, AlertKind, send
from hedgerow.web.metrics import SiteMetrics
from hedgerow.web.visitor_rows import describe_reason

log = logging.getLogger(__name__)

_INTERVAL = 30.0
_PARTICIPLES = {"challenge": "challenged", "detain": "detained", "refuse": "refused"}
_HOUR = 3600.0
_SHORT = 600.0
"""Seconds over which stopped visits and failures of the site are counted; challenges are counted for an hour."""
_MIN_CHALLENGES = 100
_MIN_SOLVED = 0.05
_MIN_FAILURES = 20
_DAY = 86_400.0
_WEEK_BEFORE = 7
_MIN_COMPLAINTS = 5
_TIMES_AS_MANY = 2
"""How many people are let in by hand within a day, and how many times as many as on a day of the week before."""
_MAX_REMEMBERED = 1000
_CLOSE_SECONDS = 2.0
_MAX_TRIES = 7
"""An alert is tried again after 1, 2, 4, ... minutes: for about two hours."""


class AlertSource(Protocol):
    """The site, as far as alerts need it."""

    certificate_problem: str

    def metrics(self) -> SiteMetrics: ...

    def campaigns(self) -> Sequence[Campaign]: ...

    def complaints(self, start: float) -> Sequence[float]: ...

    def problems(self) -> dict[str, str]: ...

    def problems_of_workers(self) -> dict[int, dict[str, str]]: ...


class _Counts(NamedTuple):
    """The sums of one moment that later ones are compared with."""

    at: float
    stopped: Counter[str]
    issued: int
    solved: int
    failures: int


class AlertRules:
    """Finds what the operator should know, from one look at the site to the next."""

    def __init__(self, settings: AlertsSettings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._history: deque[_Counts] = deque()
        self._campaigns: set[str] | None = None
        self._failing: set[str] = set()

    def look(self, source: AlertSource, at: float) -> Iterator[Alert]:
        """Yield alerts, also those that were sent before."""
        metrics = source.metrics()
        challenges = metrics.challenges
        self._history.append(
            _Counts(
                at, Counter(metrics.stopped), challenges.get("issued", 0), challenges.get("solved", 0),
                sum(metrics.upstream_errors.values()),
            )
        )  # fmt: skip
        while len(self._history) > 1 and self._history[1].at <= at - _HOUR:
            self._history.popleft()
        complaints = self._complaints(source.complaints(at - (1 + _WEEK_BEFORE) * _DAY), at)
        found = (self._crawl(at), self._challenges(at), complaints, self._site(at))
        yield from (Alert(kind, subject, text, at, self._name) for kind, subject, text in filter(None, found))
        if problem := source.certificate_problem:
            yield Alert("certificate", "certificate", f"{problem[0].upper()}{problem[1:]}.", at, self._name)
        for kind, subject, text in (*self._new_campaigns(source), *self._stores(source)):
            yield Alert(kind, subject, text, at, self._name)

    def _since(self, at: float) -> _Counts:
        """Return the last counts that are not newer than *at*, or the first ones."""
        return next((one for one in reversed(self._history) if one.at <= at), self._history[0])

    def _crawl(self, at: float) -> tuple[AlertKind, str, str] | None:
        before, now = self._since(at - _SHORT), self._history[-1]
        stopped = now.stopped - before.stopped
        total = stopped.total()
        if total < self._settings.crawl_stopped:
            return None
        observed, action, code = stopped.most_common(1)[0][0].split(" ", 2)
        done = f"{'would have been' if observed == 'true' else 'were'} "
        minutes = max(1, round((now.at - before.at) / 60))
        words = describe_reason(code).text
        return "crawl", "crawl", (
            f"The site is being crawled. {total:,} requests {done}stopped in {minutes} minutes. Most {done}"
            f"{_PARTICIPLES.get(action, action)}{f': {words}' if words else ''} [{code}]"
        )  # fmt: skip

    def _challenges(self, at: float) -> tuple[AlertKind, str, str] | None:
        before, now = self._since(at - _HOUR), self._history[-1]
        issued, solved = now.issued - before.issued, now.solved - before.solved
        if issued < _MIN_CHALLENGES or solved >= _MIN_SOLVED * issued:
            return None
        return "challenges", "challenges", (
            f"Challenges are not solved. Of {issued:,} challenges in the last hour {solved:,} were solved. These are "
            "crawlers, or the page does not work for people: open it yourself, and see hedgerow visitors show."
        )  # fmt: skip

    def _complaints(self, times: Sequence[float], at: float) -> tuple[AlertKind, str, str] | None:
        today = sum(one > at - _DAY for one in times)
        usual = (len(times) - today) / _WEEK_BEFORE
        if today < _MIN_COMPLAINTS or today <= _TIMES_AS_MANY * usual:
            return None
        return "complaints", "complaints", (
            f"More people than usual were stopped by mistake. {today:,} visitors were let in by hand within a day, "
            f"{usual:.1f} a day in the week before. The page Complaint names the setting behind each reason."
        )  # fmt: skip

    def _site(self, at: float) -> tuple[AlertKind, str, str] | None:
        failures = self._history[-1].failures - self._since(at - _SHORT).failures
        if failures < _MIN_FAILURES:
            return None
        return "site", "site", f"The site behind Hedgerow fails. {failures:,} requests got no response in ten minutes."

    def _new_campaigns(self, source: AlertSource) -> Iterator[tuple[AlertKind, str, str]]:
        campaigns = {campaign.id: campaign for campaign in source.campaigns()}
        # Those that were known at the start are not news.
        known = self._campaigns if self._campaigns is not None else set(campaigns)
        self._campaigns = known | set(campaigns)
        for name in sorted(set(campaigns) - known):
            campaign = campaigns[name]
            yield "campaign", name, f"Campaign {name}: {len(campaign.members):,} visitors. {campaign.text}"

    def _stores(self, source: AlertSource) -> Iterator[tuple[AlertKind, str, str]]:
        """Yield what fails at two looks in a row."""
        problems = {
            part: problem
            for each in (source.problems(), *source.problems_of_workers().values())
            for part, problem in each.items()
        }
        for part in sorted(self._failing & set(problems)):
            yield "store", part, f"A part of Hedgerow fails: {part}. {problems[part].capitalize()}."
        self._failing = set(problems)


class SentAlerts:
    """What was sent, in the file *path*, for all processes of the machine."""

    def __init__(self, path: Path, settings: AlertsSettings) -> None:
        self._path = path
        self._settings = settings

    def admit(self, alert: Alert) -> bool:
        """Return whether the alert is to be sent, and remember that."""
        key = f"{alert.kind} {alert.subject}"
        try:
            with self._path.open("a+", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(0)
                sent = _decoded(file.read())
                recent = sum(at > alert.at - _HOUR for at in sent.values())
                if alert.at - sent.get(key, float("-inf")) < self._settings.repeat_after:
                    return False
                if recent >= self._settings.per_hour:
                    log.warning("an alert is not sent, there were %d in an hour: %s", recent, ascii(alert.text))
                    return False
                sent[key] = alert.at
                newest = sorted(sent.items(), key=lambda item: item[1])[-_MAX_REMEMBERED:]
                file.truncate(0)
                file.write(msgspec.json.encode(dict(newest)).decode())
        except OSError as error:
            # Without the file every process would repeat everything.
            log.error("alerts are not sent, %s cannot be written: %s", self._path, error.strerror)  # noqa: TRY400
            return False
        return True


def _decoded(text: str) -> dict[str, float]:
    try:
        return msgspec.json.decode(text, type=dict[str, float])
    except msgspec.MsgspecError:
        return {}


class _Unsent(NamedTuple):
    """An alert that no channel accepted, and when it is tried again."""

    at: float
    tries: int
    alert: Alert


class AlertsThread:
    """Looks at *source* at intervals, and sends alerts with the settings at the start."""

    def __init__(
        self, settings: Settings, source: AlertSource, directory: Path, clock: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings.alerts
        self._rules = AlertRules(settings.alerts, site_name(settings))
        self._sent = SentAlerts(directory / "alerts.json", settings.alerts)
        self._source = source
        self._clock = clock
        self._unsent: list[_Unsent] = []
        self._stop = Event()
        self._thread = Thread(target=self._run, name="hedgerow-alerts", daemon=True)
        self._thread.start()

    def close(self) -> None:
        # A message on its way may take longer; it must not hold up the stop.
        self._stop.set()
        self._thread.join(_CLOSE_SECONDS)

    def look(self) -> None:
        """Look at the site once, and send what is new, and what could not be sent before."""
        now = self._clock()
        due, self._unsent = (
            [one for one in self._unsent if one.at <= now], [one for one in self._unsent if one.at > now],
        )  # fmt: skip
        for one in due:
            self._send(one.alert, one.tries)
        self._deliver(self._rules.look(self._source, now))

    def _run(self) -> None:
        # The first look is at the start, so that only what comes later is news.
        while True:
            try:
                self.look()
            except Exception:
                log.exception("alerts could not be checked")
            if self._stop.wait(_INTERVAL):
                return

    def _deliver(self, alerts: Iterable[Alert]) -> None:
        for alert in alerts:
            if alert.kind in self._settings.kinds and self._sent.admit(alert):
                self._send(alert)

    def _send(self, alert: Alert, tries: int = 0) -> None:
        """Send an alert. If no channel accepts it, it is tried again later, after longer and longer pauses."""
        errors = dict(send(self._settings, alert))
        for channel, error in errors.items():
            if error is not None:
                log.error("an alert could not be sent by %s: %s", channel, error)
        if None not in errors.values() and tries < _MAX_TRIES:
            self._unsent.append(_Unsent(self._clock() + _INTERVAL * 2 ** (tries + 1), tries + 1, alert))


def site_name(settings: Settings) -> str:
    """Return what alerts call the site."""
    return settings.alerts.site or settings.responses.site or socket.gethostname()
