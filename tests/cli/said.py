"""What commands write to standard error."""


def without_place(text: str) -> str:
    """What a command said, without the line that names the directory that it uses: see `test_service.py`."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("using "))
