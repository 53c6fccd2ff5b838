"""Limits of catalogues, each with its unit in its name."""

from __future__ import annotations

# A file or answer of JSON is read whole; what is cut into records as it comes bounds each record.
CATALOGUE_DOCUMENT_BYTES_MAX = 256 * 1024 * 1024
CATALOGUE_RECORD_BYTES_MAX = 64 * 1024 * 1024
CATALOGUE_PAGES_MAX = 100_000
CATALOGUE_DIFF_BYTES_MAX = 1024 * 1024
