"""The bench: every table and figure of the paper, regenerated beside the published numbers, resumably.

Grids, presets, records and tables need no torch; only `training` does.
"""
