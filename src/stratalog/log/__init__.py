"""The log: a gapless sequence of entries, each written by one conditional put. Segments, large bodies, archive."""
