"""All fuzz targets: importing this module registers them."""

from __future__ import annotations

from . import files, growth, marks, services, wire
from .registry import TARGETS

__all__ = ["TARGETS", "files", "growth", "marks", "services", "wire"]
