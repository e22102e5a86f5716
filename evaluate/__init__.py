"""The evaluation: `python -m evaluate` measures the models and writes docs/evaluation/; see its README there."""
