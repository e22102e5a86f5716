"""Bundles that come with the package: trained by `hedgerow train`, simulated; each says what it is made of."""
