"""Every bound, with its unit in its name. Each is enforced where the input enters, with a typed error that says it."""

from __future__ import annotations

# Numbers. JSON readers in JavaScript hold integers exactly up to 2^53 - 1; versions stay below it as well.
INTEGER_MAX = 2**53 - 1
VERSION_MAX = INTEGER_MAX
VERSION_DIGITS = 16

# Names. An id is one component of a blob key and of a file path, which Linux bounds at 255 bytes. A record's may be
# longer: it is the sort of a line of the directory, and in other keys its beginning and its digest.
ID_ESCAPED_BYTES_MAX = 200
RECORD_ID_BYTES_MAX = 1000
KEY_BYTES_MAX = 512
EVENT_TYPE_BYTES_MAX = 64
AUTHOR_BYTES_MAX = 128
PRINCIPAL_BYTES_MAX = 128
WRITE_ID_BYTES_MAX = 64
CLIENT_ID_BYTES_MAX = 128
MUTATOR_NAME_BYTES_MAX = 128

# Values.
JSON_DEPTH_MAX = 64
VALUE_BYTES_MAX = 64 * 1024 * 1024
VALUE_INLINE_BYTES_MAX = 1024
DOCUMENT_FIELDS_BYTES_MAX = 4096
# A mutation's keys and values as its entry holds them, with what the entry says of each key besides.
PATCH_BYTES_MAX = 56 * 1024 * 1024
PATCH_ROW_BYTES = 24
METADATA_BYTES_MAX = 1024

# Index: DynamoDB's own bounds, kept on every backend so that a program that runs on one runs on all.
ITEM_BYTES_MAX = 400 * 1024
COMMIT_WRITES_MAX = 100
COMMIT_BYTES_MAX = 4 * 1024 * 1024
PARTITION_BYTES_MAX = 2048
SORT_BYTES_MAX = 1024

# Blobs. A body above the part size is stored as parts and a manifest.
BLOB_KEY_BYTES_MAX = 1024
BLOB_BYTES_MAX = 16 * 1024 * 1024
BODY_PART_BYTES = 8 * 1024 * 1024
# A blob of up to so many bytes is a row of the index's own database, where the index has one. With more bytes a row is
# no quicker than a file in memory, and a commit of it delays others. One commit takes along so many bytes of blobs.
# What is no commit writes them in slices, so that small commits do not wait for it.
BLOB_ROW_BYTES_MAX = 64 * 1024
COMMIT_BLOB_BYTES_MAX = 16 * 1024 * 1024
BLOB_SLICE_BYTES = 256 * 1024
BODY_INLINE_BYTES_MAX = 8 * 1024
# So many blobs are remembered as read back, so that a put of the same bytes need not read them again at once.
READS_REMEMBERED_MAX = 10_000

# Queue: Amazon SQS FIFO's own bounds. Its messages are text of at most 1 MiB, so bytes go as base64, beside names.
MESSAGE_BYTES_MAX = 760 * 1024
RECEIVE_MESSAGES_MAX = 10
VISIBILITY_SECONDS_MAX = 12 * 3600

# Log.
ENTRY_EVENTS_MAX = 10_000
ENTRY_BYTES_MAX = 64 * 1024 * 1024
FORK_DEPTH_MAX = 32

# Records.
RECORD_BYTES_MAX = 64 * 1024 * 1024 * 1024
RECORD_MARKS_MAX = 32
RECORD_UPLOAD_SECONDS_MAX = 24 * 3600
REASON_BYTES_MAX = 1024
POINTER_BYTES_MAX = 2048

# A store's documents whose state is held in memory; those used longest ago go first.
DOCUMENTS_HELD_MAX = 1000

# A store's decoded chunks that are held in memory for all its documents; those used longest ago go first.
CHUNK_CACHE_BYTES_MAX = 64 * 1024 * 1024
# A store takes so many snapshots of documents at once beside commits. The others wait for a later commit.
BACKGROUND_OFFERS_MAX = 4
# Clients are forgotten by this number in one entry.
CLIENTS_COLLECTED_PER_ENTRY_MAX = 1000

# Sync.
MUTATIONS_PER_BATCH_MAX = 1000
# A pull tells the rejections of so many versions; a client relies on it, so it is part of the protocol.
REJECTIONS_SHOWN_VERSIONS = 1000
MUTATIONS_PER_PUSH_MAX = 20_000
# A cookie holds the last numbers of so many clients of its group: those told last.
COOKIE_CLIENTS_MAX = 200
# A cookie whose order is further ahead of the time is answered for itself, and moves nobody else's orders.
COOKIE_ORDER_AHEAD_SECONDS_MAX = 86_400
PENDING_MUTATIONS_MAX = 10_000

# The queue path. A message is given out at most so often before the queue moves it aside.
QUEUE_RECEIVES_MAX = 10
QUEUED_PUSHES_MAX = 1000
QUEUED_BYTES_MAX = 64 * 1024 * 1024
WORKER_MESSAGES_MAX = 1000

# What a writer saw may be relied on for this long, from sending the request that learnt it to the answer of the commit
# that relies on it. Nothing is freed sooner than this plus the grace after it was marked for freeing.
OBSERVATION_SECONDS_MAX = 300
GRACE_SECONDS = 300

# How long a process waits for its turn at a file that others share. Then it goes on without: a stopped process may have
# the turn.
TURN_WAIT_MS_MAX = 200

# Collecting. So many blobs of an owner are judged at once, and so many chunks are remembered as walked.
COLLECT_CANDIDATES_MAX = 200_000
COLLECT_CHUNKS_SEEN_MAX = 1_000_000
# A queue keeps a message for two weeks at most, and a dead letter for as long again.
QUEUED_SECONDS_MAX = 30 * 86_400
# So clients are not forgotten sooner: what they sent may still wait.
CLIENT_IDLE_DAYS_MIN = 30
# Blobs of an owner that the index does not know may belong to a copy that is being made.
UNKNOWN_OWNER_SECONDS_MAX = 7 * 86_400

# A pass of maintenance reads blobs of so many bytes, if there are that many and the time allows.
SCRUB_PASS_BYTES_MIN = 256 * 1024 * 1024
# A blob that a whole round has read is looked up for so long, and not read again, before history is forgotten.
SCRUB_PROOF_SECONDS_MAX = 30 * 86_400
# The clocks of processes and of the storage that dates blobs disagree by no more.
SCRUB_CLOCKS_SECONDS_MAX = 86_400

# The edge of a server: what one request may bring and one answer may hold.
REQUEST_BYTES_MAX = 16 * 1024 * 1024
REQUEST_COMPRESSED_BYTES_MAX = 4 * 1024 * 1024
REQUEST_RECORD_BYTES_MAX = 1024 * 1024 * 1024
# A text that is pushed is there seven times at the height of its commit. So beside what it took as it arrived, a body
# takes so many times its size while it is decoded and applied, or what its values take where that is more; at most what
# the largest body takes.
REQUEST_COPIES = 6
REQUEST_DECODED_BYTES_MAX = REQUEST_COPIES * REQUEST_BYTES_MAX
# A push is decoded and applied in parts that take so much, or one mutation each.
PUSH_PART_DECODED_BYTES = 32 * 1024 * 1024
# A packed body has so many gzip members or zstd frames.
PACKED_PARTS_MAX = 1000
# How far back a zstd frame may refer: so much memory unpacks it.
PACKED_WINDOW_BYTES_MAX = 8 * 1024 * 1024
# What all bodies take in memory at once: as they arrive, and while they are decoded and applied. The latter is what the
# largest body takes, and some room beside it for small ones, which never wait for a large one. Others wait so long.
BODY_BYTES_IN_FLIGHT_MAX = 64 * 1024 * 1024
BODY_BYTES_OF_PRINCIPAL_MAX = 24 * 1024 * 1024
DECODED_BYTES_IN_FLIGHT_MAX = REQUEST_DECODED_BYTES_MAX + 8 * 1024 * 1024
DECODED_BYTES_OF_PRINCIPAL_MAX = REQUEST_DECODED_BYTES_MAX
DECODED_BYTES_SMALL_MAX = 1024 * 1024
DECODED_WAIT_SECONDS_MAX = 10
DECODED_WAITS_OF_HOLDER_MAX = 4
# The temporary files of records that are being uploaded, and what all answers take in memory.
FILE_BYTES_MAX = 8 * 1024 * 1024 * 1024
FILE_BYTES_OF_PRINCIPAL_MAX = 2 * 1024 * 1024 * 1024
ANSWER_BYTES_IN_FLIGHT_MAX = 96 * 1024 * 1024
ANSWER_BYTES_OF_PRINCIPAL_MAX = 64 * 1024 * 1024
# Smaller answers are not counted.
ANSWER_BYTES_COUNTED_MIN = 64 * 1024
REQUEST_DEPTH_MAX = JSON_DEPTH_MAX + 8
REQUEST_SILENCE_SECONDS_MAX = 60
# How long a caller may be waited for: for the head of a request, for its body, which is given a second more for each so
# many bytes, and for the next request.
REQUEST_HEAD_SECONDS_MAX = 10
REQUEST_HEAD_BYTES_MAX = 16 * 1024
REQUEST_BODY_SECONDS_MAX = 60
REQUEST_BODY_BYTES_PER_SECOND_MIN = 64 * 1024
CONNECTION_IDLE_SECONDS_MAX = 5
# Of an answer that waits, something is read within so long, and so many bytes a second over each minute. It is sent in
# pieces.
ANSWER_SILENCE_SECONDS_MAX = 20
ANSWER_BYTES_PER_SECOND_MIN = 4096
ANSWER_PIECE_BYTES = 64 * 1024
# A body of a record or blob waits in a temporary file while it is sent, and in memory in pieces. So many threads read
# bodies, each a part of up to 16 MiB at once.
BODY_PIECE_BYTES = 128 * 1024
BODY_THREADS_MAX = 4
# The system holds at most so many bytes of an answer that the caller's side has not asked for.
ANSWER_UNSENT_BYTES_MAX = 128 * 1024
PAGE_ITEMS_MAX = 1000
# Of the organisations that have one name, so many are looked at: each is a question to the application's rules.
NAME_HOLDERS_MAX = 1000
PAGE_STATES_MAX = 50
# A pull whose values have more bytes is sent as it is read.
PULL_START_BYTES_MAX = 256 * 1024
# Of rows of an answer that read more bytes, so many are decoded and encoded at once.
LARGE_ROW_BYTES_MIN = 256 * 1024
LARGE_ROWS_MAX = 2
# A page of an answer ends here, if it has more than one row. It is less than what AWS Lambda answers with at once.
PAGE_BYTES_MAX = 4 * 1024 * 1024
SNAPSHOT_BODY_BYTES_MAX = 256 * 1024
CONNECTIONS_MAX = 10_000
# Connections leave so many of the process's descriptors to the store's files, to engines and to other services.
DESCRIPTORS_RESERVED = 256
ACCEPTS_PER_TURN_MAX = 40
ACCEPT_RETRY_SECONDS = 1
LOG_LINE_SECONDS_MIN = 1
# What one holder may have at most of a process's connections, and of its live ones. Only where tokens are asked for.
PRINCIPAL_SHARE_MAX = 0.1
ORGANISATION_SHARE_MAX = 0.5
ADDRESS_SHARE_MAX = 0.25
# Of all connections so many are left to requests, however many live ones there may be.
REQUESTS_RESERVED_SHARE = 0.25
PUSHES_WAITING_MAX = 256
# So many calls of one kind run or wait in a server's process, and one waits so long for a thread.
POOL_CALLS_MAX = 1024
CALL_WAIT_SECONDS_MAX = 20
IDENTITY_THREADS_MAX = 16
# While other principals call and the process is busy, the threads that work for one compute this part of the time,
# after so many seconds at once. A pause ends after so long. A process has one core: its threads share an interpreter.
CALLER_COMPUTED_SHARE_MAX = 0.25
CALLER_COMPUTED_BURST_SECONDS = 0.5
CALLER_PAUSE_SECONDS_MAX = 5
# The answer about the server's health waits so long for the store. Then it is the last one, if that is so young.
HEALTH_ANSWER_SECONDS_MAX = 0.05
HEALTH_AGE_SECONDS_MAX = 10
RATE_REQUESTS_PER_SECOND = 200
RATE_REQUESTS_BURST = 1000
RATE_HOLDERS_MAX = 10_000
TOKEN_BYTES_MAX = 8192
# The keys of an issuer of web tokens: how long they are good, how often an unknown one is asked for, and how long and
# large the issuer's answer may be.
TOKEN_KEYS_SECONDS_MAX = 3600
TOKEN_KEYS_REFETCH_SECONDS_MIN = 60
TOKEN_KEYS_FETCH_SECONDS_MAX = 5
TOKEN_KEYS_BYTES_MAX = 256 * 1024
# Guesses at tokens from one address, and how many valid tokens are known by their digests.
INVALID_TOKENS_PER_SECOND = 1
INVALID_TOKENS_BURST = 50
TOKENS_REMEMBERED_MAX = 10_000
# What one principal may create: documents, logs and forks.
CREATIONS_PER_SECOND = 5
CREATIONS_BURST = 500
# What one principal may create of records. A put of many counts each new one.
RECORD_CREATIONS_PER_SECOND = 20
RECORD_CREATIONS_BURST = 10_000
# Quotas. What an organisation was measured to store is read again after so long, and what a process admitted since is
# counted in slices of so many seconds. A clock is ahead of the measuring one by no more.
USAGE_READ_SECONDS = 60
USAGE_SLICE_SECONDS = 10
USAGE_SLICES_MAX = 512
USAGE_CLOCKS_SECONDS_MAX = 60
USAGE_ORGANISATIONS_MAX = 10_000
# So many organisations have their usage in the metrics: those that are nearest to a quota.
USAGE_LABELS_MAX = 100
# A measurement that was left for so long begins anew.
USAGE_PROGRESS_SECONDS_MAX = 86_400
# What a request takes in the store beside its body, and a new document, log or fork: items and their keys.
REQUEST_STORED_BYTES = 512
CREATION_STORED_BYTES = 1024
# Lines of the access log and of the security log, of all callers; one has a tenth of it.
ACCESS_LINES_PER_SECOND = 2000
SECURITY_LINES_PER_SECOND = 100
LOG_LINES_WAITING_MAX = 10_000
AUDITED_PATH_BYTES_MAX = 512

# Live updates.
LIVE_CONNECTIONS_MAX = 5000
LIVE_MESSAGE_BYTES_MAX = 4096
LIVE_CLOSE_SECONDS_MAX = 10
# Where a token is asked for, a connection that did not bring one says it within so long.
LIVE_HELLO_SECONDS_MAX = 10
PRESENCE_BYTES_MAX = 1024
PRESENCE_CONNECTIONS_MAX = 200
# Of those that one principal shows so many are seen.
PRESENCE_PER_PRINCIPAL_MAX = 20
# A connection's presence is heard so often. Listeners are told after a pause, the longer the more there are. All
# listeners of a document get so many bytes of it a second, and those of all documents of a process so many.
PRESENCE_SECONDS_MIN = 0.1
PRESENCE_PAUSE_SECONDS_MIN = 0.1
PRESENCE_PAUSE_SECONDS_MAX = 0.25
PRESENCE_ROOM_BYTES_PER_SECOND = 2 * 1024 * 1024
PRESENCE_BYTES_PER_SECOND = 8 * 1024 * 1024

# Functions on AWS. Lambda's bound of 6 MB is on the answer as JSON, where a body is base64; 64 KB are left to the rest
# of it. A compressed body is made within the function's time and memory.
FUNCTION_ANSWER_BYTES_MAX = (6 * 1024 * 1024 - 64 * 1024) // 4 * 3
FUNCTION_UNPACKED_BYTES_MAX = 64 * 1024 * 1024
# So long after its hello a connection at API Gateway hears of something. Its right was asked then, with a token that is
# not kept: nobody can ask again, so the connection ends and its client says hello anew.
GATEWAY_CONNECTION_SECONDS_MAX = 900
# How many connections of a document show themselves: a message to a WebSocket is at most 128 KB there.
GATEWAY_SHOWN_MAX = 100
