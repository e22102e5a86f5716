"""What the pages of challenges need: their words, our script, and the proof-of-work widget in `altcha/`."""
