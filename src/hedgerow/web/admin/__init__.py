"""
The admin listener: dashboard, health, metrics, blocks and lists, for operators only. Tests: `tests/web/admin/`.
"""
