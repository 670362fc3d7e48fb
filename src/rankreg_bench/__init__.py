"""The bench: regenerates the tables and figures of the paper beside the published numbers, resumably.

It uses only the public names of `rankreg`. Grids, records, tables and figures need no torch; training does.
"""
