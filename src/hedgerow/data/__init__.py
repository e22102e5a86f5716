"""Data that comes with the package: words for the maze, the dashboard."""
