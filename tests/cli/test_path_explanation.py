"""What `hedgerow explain /path` says; `test_attack.py` runs the command."""

from __future__ import annotations

from hedgerow.cli.path_explanation import explain_path
from hedgerow.settings import read_settings


def said(text: str, target: str) -> str:
    return "\n".join(explain_path(read_settings(text, environment={}), target))


def test_the_settings_of_the_site_hold_where_no_rule_does():
    assert "closed      opens only by a marked link" in said("[marker]\nstrict = true\n", "/a")
    assert "limits      none" in said("[density]\nenabled = false\n", "/a")
    assert "traps       hidden links" in said("", "/a")


def test_a_rule_changes_only_what_it_names():
    text = "[[path]]\npath = '/a'\ntraps = false\nchallenges = ['audio']\nprotection = 'observe'\n"
    out = said(text, "/a")
    assert "traps       none" in out
    assert "challenges  audio" in out
    assert "protection  observe: nothing is enforced" in out
    assert "clearance   only for suspects" in out


def test_a_site_that_observes_marks_nothing():
    assert "marks       links to it: off" in said("observe = true\n", "/a")
