"""
Train: where the models come from.

Owns simulated people and crawlers (`simulated_*`), training samples from them and from logs (`samples`, `log_samples`),
the fitting of path and window models (`fit`, `learners`, `thresholds`), of the traffic-shape models (`shape_model`,
`cn2_rules`) and of the report model (`report_weights`), and quality figures (`measures`, `training_report`). Never runs
in a gate: it needs scikit-learn and numpy. All random numbers are seeded. Called by `hedgerow train` and `evaluate`.
Tests: `tests/lab/train/`.
"""
