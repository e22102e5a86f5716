"""Bundles that come with the package: trained by `python -m evaluate.train`; each says what it is made of."""
