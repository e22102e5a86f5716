"""
Fuzz targets: functions that take any bytes, and fail if what strangers send breaks Hedgerow.

`test_targets.py` runs each of them over its corpus and some hundred mutations. `make fuzz` runs them under atheris,
which mutates by coverage (`__main__.py`). `corpus/NAME/` has the inputs that a target begins with. An input that was a
fault once is kept there, too.
"""
