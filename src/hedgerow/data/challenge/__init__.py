"""What challenges need in a browser: words, our scripts, and in `sha256/` the hash function for the calculation."""
