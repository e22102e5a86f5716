"""
Challenges: tickets, proof of work, CAPTCHA, external providers, and the clearance that a solved challenge gives.

Owns the protocol only. The HTTP endpoints and pages are in `web.challenge`, the stores of used challenges in `state`.
Never decides whom to challenge: `policy` does. Called by `web.challenge` and `request`. Tests: `tests/challenge/`.
"""
