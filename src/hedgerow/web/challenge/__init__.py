"""
Challenges over HTTP: endpoints, pages, prepared CAPTCHA images, external verification. The protocol is `challenge`.

Tests: `tests/web/challenge/`.
"""
