"""
Campaigns: visitors that belong together.

Knows how links that were minted for one visitor and used by another tie the two together (`sharing`, on `ties`); and,
in a log (these need numpy), whose traffic rises and falls together (`similarity`), who keeps whose company (`company`,
on `networks` and `diets`), who plays the same script (`scripts`), who leaves the same traces (`traces`), and all of
these in turn (`finding`). Never decides, asks the clock or keeps files. Called by the watch (`sharing`) and by the
report. Tests: `tests/campaigns/`.
"""
