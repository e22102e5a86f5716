"""
Exchange: lists on their way in and out, in our own formats and in those of other programs.

Knows plain text, CSV, JSON, fail2ban and CrowdSec coming in (`reading`), and what nginx, Apache, HAProxy, nftables and
ipset want going out (`writing`). Never stores or decides; asks no clock. Called by the command line and the admin
listener. Tests: `tests/exchange/`.
"""
