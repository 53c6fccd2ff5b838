"""Limits of catalogues, each with its unit in its name."""

from __future__ import annotations

# CATALOGUE_DOCUMENT_BYTES_MAX limits the documents that are read whole: an HTTP response, a JSON document, and an XML
# document that is one record. Other files are read in pieces. CATALOGUE_RECORD_BYTES_MAX limits each record in them.
CATALOGUE_DOCUMENT_BYTES_MAX = 256 * 1024 * 1024
CATALOGUE_RECORD_BYTES_MAX = 64 * 1024 * 1024
CATALOGUE_PAGES_MAX = 100_000
# The limits of one request of a feed or repository: its redirects, and the time until its response is complete.
CATALOGUE_REDIRECTS_MAX = 20
CATALOGUE_RESPONSE_SECONDS_MAX = 3_600
CATALOGUE_DIFF_BYTES_MAX = 1024 * 1024
# FAT has the coarsest clock of all file systems: two changes of a file within this time may have the same timestamp.
CATALOGUE_FILE_TICK_SECONDS_MAX = 2.0
# Without --allow-deletions a poll of a complete state deletes no record if the state lacks more records than both
# CATALOGUE_DELETIONS_UNASKED_MAX and CATALOGUE_DELETIONS_PERCENT of the source's records. The settings of a source may
# have another percentage. Without the option a state without records deletes none.
CATALOGUE_DELETIONS_UNASKED_MAX = 25
CATALOGUE_DELETIONS_PERCENT = 20.0
# The parts of the pattern of a folder's files. Python matches a pattern by recursion, one or more calls for each part.
CATALOGUE_PATTERN_PARTS_MAX = 50

# The limits of XML. XML_ELEMENTS_OF_RECORD_MAX also limits a document that is one record.
XML_DEPTH_MAX = 100
XML_TOKEN_BYTES_MAX = 1024 * 1024
XML_ATTRIBUTES_OF_ELEMENT_MAX = 1_000
XML_NAME_CHARACTERS_MAX = 1_024
XML_NAMES_OF_DOCUMENT_MAX = 10_000
XML_ELEMENTS_OF_RECORD_MAX = 1_000_000

# The id of a source's record. An id that is longer than CATALOGUE_ID_BYTES_MAX is stored as its beginning and its hash.
# The record's metadata and a dead letter then have the full id, if it has at most CATALOGUE_ID_STORED_BYTES_MAX bytes.
CATALOGUE_ID_BYTES_MAX = 900
CATALOGUE_ID_STORED_BYTES_MAX = 960
# The maximum size of a record's metadata as JSON. A value that does not fit is left out.
CATALOGUE_METADATA_BYTES_MAX = 900

# CATALOGUE_POLL_TRIES_MAX limits the tries of a poll from one checkpoint, and CATALOGUE_RECORD_TRIES_MAX the tries to
# store one file or one deletion. A poll waits as Retry-After says, but at most CATALOGUE_RETRY_AFTER_SECONDS_MAX.
CATALOGUE_POLL_TRIES_MAX = 4
CATALOGUE_RECORD_TRIES_MAX = 3
CATALOGUE_RETRY_AFTER_SECONDS_MAX = 300.0
# The longest interval of `catalogue poll --every`: 366 days. A wait of 1e300 seconds would raise OverflowError.
CATALOGUE_INTERVAL_SECONDS_MAX = 31_622_400

# The maximum number of dead letters, of all sources together, that the statistics count.
CATALOGUE_LETTERS_COUNTED_MAX = 10_000
