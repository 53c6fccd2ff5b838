"""Limits of tables, each with its unit in its name."""

from __future__ import annotations

from stratalog import Invalid
from stratalog.limits import MUTATIONS_PER_BATCH_MAX

# The table's state stores the name of each source and of each file of a source.
SOURCE_BYTES_MAX = 256
SOURCE_FILE_BYTES_MAX = 1_024

# Decimal keys are written as numbers of 128 bits.
KEY_PRECISION_MAX = 38

# Each ingest reads all columns of a table.
COLUMNS_MAX = 4_096
COLUMN_NAME_BYTES_MAX = 256
COLUMN_TYPE_DEPTH_MAX = 16

# The longest retention of old data files.
RETENTION_DAYS_MAX = 36_500

# The longest age of garbage and the longest lease of a job, in one pass of maintenance.
DURATION_MS_MAX = RETENTION_DAYS_MAX * 86_400_000

# The table stores at most this many characters of the reason why a data file was set aside.
DAMAGE_REASON_CHARACTERS_MAX = 300

# The maximum length of names in transactions: FILENAME_BYTES_MAX for data files, and TABLE_ID_BYTES_MAX for partitions,
# jobs and workers. EDGE_BYTES_MAX limits only split points. The keys of rows may be longer.
FILENAME_BYTES_MAX = 256
TABLE_ID_BYTES_MAX = 64
EDGE_BYTES_MAX = 256
# The maximum number of transactions in one call: half the mutations of an entry, so that two calls fit into one entry.
TRANSACTIONS_PER_CALL_MAX = MUTATIONS_PER_BATCH_MAX // 2
# The maximum number of attempts to send one message while the outcome of an attempt is in doubt.
PUSH_TRIES_MAX = 5
# The longest time in which a sender waits for the commit of a message that it may have queued too late.
LATE_SECONDS_MAX = 10
# The maximum number of data files that one merge job merges.
FILES_PER_JOB_MAX = 100


def check_duration(name: str, value: float) -> None:
    """Raise Invalid unless a duration in milliseconds is 0 to `DURATION_MS_MAX`.

    With a negative age, a collection would delete files that writers are writing or readers are reading.
    """
    if not 0 <= value <= DURATION_MS_MAX:
        raise Invalid("a duration is outside its range", name=name, value=value, limit=DURATION_MS_MAX)
