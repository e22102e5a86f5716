"""
Challenges: tickets, proof of work, CAPTCHA, external providers, and the clearance that a solved challenge gives.

Pure protocol: the HTTP endpoints and pages are in `web.challenge`, stores of used challenges in `state`. Never decides
who is challenged: that is `policy`. Called by `web.challenge`. Tests: `tests/challenge/`.
"""
