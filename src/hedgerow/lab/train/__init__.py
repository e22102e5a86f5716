"""
Training: where models come from.

Knows how people and crawlers walk a site (`people`, `crawlers`, over the sites of `graphs`), how walks and logs become
rows (`rows`), how models are fitted and how good they are (`learners`, `fitting`, `measures`, `plots`); and how
labelled sources of a log become the models of the shape of traffic (`shape`, `rules`). Never runs in the gate: it needs
scikit-learn and numpy, and all chance comes from a seed. Called by `hedgerow train` and by the evaluation. Tests:
`tests/training/`.
"""
