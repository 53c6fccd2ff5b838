"""Limits of tables, each with its unit in its name."""

from __future__ import annotations

# A source and the files that it brings are named in the table's state.
SOURCE_BYTES_MAX = 256
SOURCE_FILE_BYTES_MAX = 1_024
