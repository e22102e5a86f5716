"""
Campaigns: visitors that belong together.

Knows how links that were minted for one visitor and used by another tie the two together (`sharing`). Never decides,
asks the clock or keeps files. Called by the watch. Tests: `tests/campaigns/`.
"""
