"""
Challenges: what a suspect is asked, how an answer is checked, and the clearance that a solved one gives.

Knows tickets (where a visitor wanted to go), challenges of all kinds, answers, spent challenges and clearances. Never
decides who is challenged (`policy` does), never writes HTML or speaks HTTP (`adapters.challenging` does), asks no
clock. Called by the adapters. Tests in `tests/challenge/`.

    box        seals and opens what a client carries for us       work       proof of work, with `altcha`
    target     where a redirect may lead                          puzzle     image and audio CAPTCHA, with `captcha`
    form       a form's data, carried across the challenge        external   Turnstile, hCaptcha, reCAPTCHA
    challenges issue and check, whatever the kind                 spent      which challenges have been answered
    clearance  the cookie of who has solved one                   manner     who can be shown a page, in which language
    hooks      whom we tell
"""
