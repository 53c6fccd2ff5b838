"""Limits of catalogues, each with its unit in its name."""

from __future__ import annotations

# A file or answer of JSON is read whole; what is cut into records as it comes bounds each record.
CATALOGUE_DOCUMENT_BYTES_MAX = 256 * 1024 * 1024
CATALOGUE_RECORD_BYTES_MAX = 64 * 1024 * 1024
CATALOGUE_PAGES_MAX = 100_000
CATALOGUE_DIFF_BYTES_MAX = 1024 * 1024
# The coarsest clock of a file system is FAT's: two changes of a file within so long may leave one time.
CATALOGUE_FILE_TICK_SECONDS_MAX = 2.0
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

# The id of a source's record: a longer one is its beginning and its hash. With the source's name it makes the id of a
# record of ours. Its metadata, and a dead letter, name a long id in full up to the second value.
CATALOGUE_ID_BYTES_MAX = 900
CATALOGUE_ID_STORED_BYTES_MAX = 960
# What a record says of itself, as JSON: a value that does not fit is left out.
CATALOGUE_METADATA_BYTES_MAX = 900

# Tries of a page of a poll, and of a record, and the longest wait that a server may ask for with Retry-After.
CATALOGUE_POLL_TRIES_MAX = 4
CATALOGUE_RECORD_TRIES_MAX = 3
CATALOGUE_RETRY_AFTER_SECONDS_MAX = 300.0

# The dead letters that a summary counts by source.
CATALOGUE_LETTERS_COUNTED_MAX = 10_000
