"""Limits of catalogues, each with its unit in its name."""

from __future__ import annotations

# A file or answer of JSON is read whole; what is cut into records as it comes bounds each record.
CATALOGUE_DOCUMENT_BYTES_MAX = 256 * 1024 * 1024
CATALOGUE_RECORD_BYTES_MAX = 64 * 1024 * 1024
CATALOGUE_PAGES_MAX = 100_000
CATALOGUE_DIFF_BYTES_MAX = 1024 * 1024
# A complete state deletes so many records unasked, and of more only so many in a hundred.
CATALOGUE_DELETIONS_UNASKED_MAX = 25
CATALOGUE_DELETIONS_PERCENT = 20.0

# XML. Those of a record are of the root where a document is read whole.
XML_DEPTH_MAX = 100
XML_TOKEN_BYTES_MAX = 1024 * 1024
XML_ATTRIBUTES_OF_ELEMENT_MAX = 1_000
XML_NAME_CHARACTERS_MAX = 1_024
XML_NAMES_OF_DOCUMENT_MAX = 10_000
XML_ELEMENTS_OF_RECORD_MAX = 1_000_000
