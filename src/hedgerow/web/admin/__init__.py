"""
The admin listener: overview, health, metrics, blocks and lists, for operators only. Tests: `tests/web/admin/`.
"""
