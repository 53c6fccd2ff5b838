"""Limits of tables, each with its unit in its name."""

from __future__ import annotations

from stratalog.limits import MUTATIONS_PER_BATCH_MAX

# A source and the files that it brings are named in the table's state.
SOURCE_BYTES_MAX = 256
SOURCE_FILE_BYTES_MAX = 1_024

# Decimal keys are written as numbers of 128 bits.
KEY_PRECISION_MAX = 38

# Columns of a table are one value of its state, which each ingest reads.
COLUMNS_MAX = 4_096
COLUMN_NAME_BYTES_MAX = 256
COLUMN_TYPE_DEPTH_MAX = 16

# How many days a table may promise to keep its old data files.
RETENTION_DAYS_MAX = 36_500

# Why a data file is set aside, as far as it is kept.
DAMAGE_REASON_CHARACTERS_MAX = 300

# Names in transactions: of data files, and of partitions, jobs and workers. Rows may have longer keys than the points
# where partitions of text or bytes are split.
FILENAME_BYTES_MAX = 256
TABLE_ID_BYTES_MAX = 64
EDGE_BYTES_MAX = 256
# Transactions of one call: half an entry's mutations, so that those of other calls fit too.
TRANSACTIONS_PER_CALL_MAX = MUTATIONS_PER_BATCH_MAX // 2
# How often a message is sent whose sending is in doubt.
PUSH_TRIES_MAX = 5
# Data files of one merge job.
FILES_PER_JOB_MAX = 100
