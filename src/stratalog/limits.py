"""The limits of inputs and of shared resources. A few modules define more limits, each for its own work.

The name of a limit contains its unit. The code that receives an input enforces the input's limits.
"""

from __future__ import annotations

# Numbers. JavaScript represents integers exactly up to 2^53 - 1, so versions have the same limit.
INTEGER_MAX = 2**53 - 1
VERSION_MAX = INTEGER_MAX
VERSION_DIGITS = 16

# Names. An id is one component of a blob key and of a file path. Linux limits a component to 255 bytes. A record's id
# may be longer. Lists of records then have the whole id as the sort of an item. Other keys contain the beginning and
# the digest of such an id.
ID_ESCAPED_BYTES_MAX = 200
RECORD_ID_BYTES_MAX = 1000
KEY_BYTES_MAX = 512
EVENT_TYPE_BYTES_MAX = 64
AUTHOR_BYTES_MAX = 128
PRINCIPAL_BYTES_MAX = 128
WRITE_ID_BYTES_MAX = 64
CLIENT_ID_BYTES_MAX = 128
MUTATOR_NAME_BYTES_MAX = 128

# Values: the limits of JSON values, fields, patches and metadata.
JSON_DEPTH_MAX = 64
VALUE_BYTES_MAX = 64 * 1024 * 1024
VALUE_INLINE_BYTES_MAX = 1024
DOCUMENT_FIELDS_BYTES_MAX = 4096
METADATA_BYTES_MAX = 1024
# The size of all keys and values that one mutation writes to its entry. Each key counts `PATCH_ROW_BYTES` more, for the
# other fields of its row.
PATCH_BYTES_MAX = 56 * 1024 * 1024
PATCH_ROW_BYTES = 24

# Index. These are DynamoDB's limits. Every backend enforces these limits, so a program meets the same limits on all
# backends.
ITEM_BYTES_MAX = 400 * 1024
COMMIT_WRITES_MAX = 100
COMMIT_BYTES_MAX = 4 * 1024 * 1024
PARTITION_BYTES_MAX = 2048
SORT_BYTES_MAX = 1024

# PostgreSQL. An opened store has a pool of connections for reads, the queue and large blobs. A call waits at most
# `POSTGRES_WAIT_SECONDS_MAX` for a free connection. A new session waits at most as long until a standby has the commits
# that the session can read. A session that gets no answer for `POSTGRES_ANSWER_SECONDS_MAX` ends, unless it waits for a
# standby. PostgreSQL itself ends a statement after 60 seconds.
POSTGRES_CONNECTIONS_MAX = 16
POSTGRES_WAIT_SECONDS_MAX = 5.0
POSTGRES_ANSWER_SECONDS_MAX = 90.0
# To detect a pooler, a session opens a second session, and waits at most this long for each of its answers. A pooler
# that gives each transaction another process answers at once, unless it is busy. Another pooler may not answer before
# one of its sessions ends.
POOLER_ANSWER_SECONDS_MAX = 0.5

# Blobs. A body above the part size is stored as parts and a manifest. By default a body that has at most
# `BODY_INLINE_BYTES_MAX` once compressed is stored in its item.
BLOB_KEY_BYTES_MAX = 1024
BLOB_BYTES_MAX = 16 * 1024 * 1024
BODY_PART_BYTES = 8 * 1024 * 1024
BODY_INLINE_BYTES_MAX = 8 * 1024
# If the index has its own database, a blob of at most `BLOB_ROW_BYTES_MAX` is a row of it. A larger blob would be no
# faster as a row than as a file, and would delay other commits. `COMMIT_BLOB_BYTES_MAX` limits the total of the blobs
# that are rows in one commit. Blobs outside a commit are written in slices of `BLOB_SLICE_BYTES`, so that a small
# commit waits only for one slice.
BLOB_ROW_BYTES_MAX = 64 * 1024
COMMIT_BLOB_BYTES_MAX = 16 * 1024 * 1024
BLOB_SLICE_BYTES = 256 * 1024
# An opened store remembers this many recently read or written blobs, so that a put of the same bytes need not read them
# again.
READS_REMEMBERED_MAX = 10_000

# Queue: the limits of Amazon SQS FIFO. An SQS message is text of at most 1 MiB: the body in base64, and names.
MESSAGE_BYTES_MAX = 760 * 1024
RECEIVE_MESSAGES_MAX = 10
VISIBILITY_SECONDS_MAX = 12 * 3600

# Log: the limits of one entry, and of forks of forks.
ENTRY_EVENTS_MAX = 10_000
ENTRY_BYTES_MAX = 64 * 1024 * 1024
FORK_DEPTH_MAX = 32

# Records: the limits of one record, its marks, its upload and its failures.
RECORD_BYTES_MAX = 64 * 1024 * 1024 * 1024
RECORD_MARKS_MAX = 32
RECORD_UPLOAD_SECONDS_MAX = 24 * 3600
REASON_BYTES_MAX = 1024
POINTER_BYTES_MAX = 2048

# An opened store keeps the states of this many documents in memory. It drops the least recently used document first.
DOCUMENTS_HELD_MAX = 1000
# An opened store caches decoded chunks of at most this total size for all its documents. It drops the least recently
# used chunk first.
CHUNK_CACHE_BYTES_MAX = 64 * 1024 * 1024
# The total size of the files of a chunk cache in a folder. All processes of the machine share this cache.
CHUNK_FILES_BYTES_MAX = 1024 * 1024 * 1024
# A store on AWS loads at most this many chunks at the same time for one batch, or for one snapshot.
CHUNK_GETS_MAX = 16
# An opened store takes at most this many snapshots in the background at the same time. Beyond this number a later
# commit of the document starts its snapshot.
BACKGROUND_OFFERS_MAX = 4
# `Document.expire_clients` forgets at most this many clients in one entry.
CLIENTS_COLLECTED_PER_ENTRY_MAX = 1000

# Sync. A server applies a push in batches of at most `MUTATIONS_PER_BATCH_MAX` mutations. A client holds at most
# `PENDING_MUTATIONS_MAX` mutations.
MUTATIONS_PER_PUSH_MAX = 20_000
MUTATIONS_PER_BATCH_MAX = 1000
PENDING_MUTATIONS_MAX = 10_000
# A pull over more versions than this reports no rejections. Clients rely on this number, so it is part of the protocol.
REJECTIONS_SHOWN_VERSIONS = 1000
# A cookie contains the last mutation numbers of this many clients of its group: the most recently reported clients.
COOKIE_CLIENTS_MAX = 200
# A cookie's order is based on the time. If the order is further in the future than this limit, the server does not
# raise the orders of other clients' cookies above it.
COOKIE_ORDER_AHEAD_SECONDS_MAX = 86_400

# The queue path. After this many receives of a message the queue moves the message to the dead letters.
QUEUE_RECEIVES_MAX = 10
# The pushes of one document that wait in the queue, the size of one push, and the messages that one worker has.
QUEUED_PUSHES_MAX = 1000
QUEUED_BYTES_MAX = 64 * 1024 * 1024
WORKER_MESSAGES_MAX = 1000
# A process counts the queued pushes of this many documents. It counts a push for at most `QUEUED_PUSH_SECONDS_MAX`,
# since it may not learn that the push was applied.
QUEUED_DOCUMENTS_REMEMBERED_MAX = 10_000
QUEUED_PUSH_SECONDS_MAX = 900
# The worker rejects a mutation that has failed this often when it ran alone. At the last delivery of the message one
# earlier failure is enough. The stored reason of a failure has at most `FAILURE_REASON_CHARACTERS_MAX` characters.
MUTATION_TRIES_MAX = 2
FAILURE_REASON_CHARACTERS_MAX = 300

# The observation rule: a writer may rely on a read for this long. The time starts before the writer sends the read, and
# ends with the answer to the commit. Data that is marked for freeing is freed only after this time plus the grace.
OBSERVATION_SECONDS_MAX = 300
GRACE_SECONDS = 300
# A mark that is further in the future than this was made with a wrong clock, and is made again. A process whose clock
# is behind by less than this leaves the marks of right clocks as they are. If it set such a mark back to its own time,
# a process with a right clock would free the data at once.
MARK_AHEAD_SECONDS_MIN = 30 * 86_400
# A verification of a log or record begins again if the floor rose meanwhile. It makes at most this many attempts.
VERIFY_ATTEMPTS_MAX = 5

# A process waits this long for its turn at a shared file. Then it works without a turn, since a stopped process may
# have the turn.
TURN_WAIT_MS_MAX = 200
# A put or a delete waits at most this long while another process renews or deletes the same blob's file. A stopped
# process may hold the file's lock.
FILE_LOCK_WAIT_MS_MAX = 10_000
# A process that opens a store's database waits at most this long while another process opens the database. A stopped
# process may hold the lock.
OPENING_WAIT_MS_MAX = 10_000
# `os.fork` waits at most this long until no other thread is inside a call of SQLite, since a disk may hang, or prepares
# a type for msgspec. After a fork that did not wait for all threads, the child process cannot open a database.
FORK_WAIT_MS_MAX = 10_000

# Collection. One step examines at most this many blobs of an owner. A collection remembers at most this many chunks as
# visited.
COLLECT_CANDIDATES_MAX = 200_000
COLLECT_CHUNKS_SEEN_MAX = 1_000_000
# The search of a backup for the lost blobs of a family remembers at most this many entry bodies with their references,
# and as many needed blobs and lost blobs.
BACKUP_BLOBS_REMEMBERED_MAX = 200_000
# A backup, its verification, a restore and a copy name at most this many damaged parts, and count the others.
DAMAGED_PARTS_NAMED_MAX = 10_000
# The command line prints at most this many of them. With `--json` it prints all that are named.
DAMAGED_PARTS_PRINTED_MAX = 100
# A claim check is kept for at least this long, since its message is sent after it was written.
CLAIM_CHECK_SECONDS_MIN = 2 * 86_400
# A client must be idle for at least this long before it is forgotten, since the queue may still contain its messages.
# SQS keeps a message for at most two weeks, and then a dead letter for at most two more weeks.
CLIENT_IDLE_DAYS_MIN = 30
# Blobs stay this long if the index has no item of their owner. A copy of the owner may be in progress. So the
# restoration of one log must end within this time.
UNKNOWN_OWNER_SECONDS_MAX = 7 * 86_400

# While a round of the scrub is under way, each maintenance pass reads at least this many bytes, unless the round ends
# earlier or the pass has no time left.
SCRUB_PASS_BYTES_MIN = 256 * 1024 * 1024
# A complete round of the scrub proves for this long that its blobs are intact. Before retention forgets history of a
# document, it checks the blobs that the new base needs. If the last round has read a large value, retention only looks
# up whether the value is stored. It reads all other blobs.
SCRUB_PROOF_SECONDS_MAX = 30 * 86_400
# The largest assumed difference between a process's clock and the clock of the storage that dates blobs.
SCRUB_CLOCKS_SECONDS_MAX = 86_400

# HTTP: limits of one request and of one response.
REQUEST_HEAD_BYTES_MAX = 16 * 1024
TOKEN_BYTES_MAX = 8192
REQUEST_DEPTH_MAX = JSON_DEPTH_MAX + 8
REQUEST_BYTES_MAX = 16 * 1024 * 1024
REQUEST_COMPRESSED_BYTES_MAX = 4 * 1024 * 1024
REQUEST_RECORD_BYTES_MAX = 1024 * 1024 * 1024
# At the peak of its commit a pushed text exists seven times in memory: once as the body that arrived, and
# `REQUEST_COPIES` times more. So a body that is decoded and applied counts as `REQUEST_COPIES` times its size. If its
# decoded values are larger, their size counts instead. A body counts as `REQUEST_DECODED_BYTES_MAX` at most.
REQUEST_COPIES = 6
REQUEST_DECODED_BYTES_MAX = REQUEST_COPIES * REQUEST_BYTES_MAX
# A server decodes and applies a push in parts of at most this decoded size. A larger mutation is a part of its own.
PUSH_PART_DECODED_BYTES = 32 * 1024 * 1024
# A compressed body has at most this many gzip members or zstd frames.
PACKED_PARTS_MAX = 1000
# The largest distance over which a zstd frame may refer back. Decompression needs this much memory.
PACKED_WINDOW_BYTES_MAX = 8 * 1024 * 1024
# The memory of all bodies at the same time. `BODY_…` limits the bodies on arrival, and `DECODED_…` the bodies that are
# decoded and applied. `DECODED_BYTES_IN_FLIGHT_MAX` is the size of the largest body plus some room for small bodies,
# which never wait for a large body. Other bodies wait up to `DECODED_WAIT_SECONDS_MAX`.
BODY_BYTES_IN_FLIGHT_MAX = 64 * 1024 * 1024
BODY_BYTES_OF_PRINCIPAL_MAX = 24 * 1024 * 1024
DECODED_BYTES_IN_FLIGHT_MAX = REQUEST_DECODED_BYTES_MAX + 8 * 1024 * 1024
DECODED_BYTES_OF_PRINCIPAL_MAX = REQUEST_DECODED_BYTES_MAX
DECODED_BYTES_SMALL_MAX = 1024 * 1024
DECODED_WAIT_SECONDS_MAX = 10
DECODED_WAITS_OF_HOLDER_MAX = 4
# `FILE_…` limits the temporary files of all unfinished record uploads, and `ANSWER_…` the memory of all responses.
FILE_BYTES_MAX = 8 * 1024 * 1024 * 1024
FILE_BYTES_OF_PRINCIPAL_MAX = 2 * 1024 * 1024 * 1024
ANSWER_BYTES_IN_FLIGHT_MAX = 96 * 1024 * 1024
ANSWER_BYTES_OF_PRINCIPAL_MAX = 64 * 1024 * 1024
# A response below this size does not count.
ANSWER_BYTES_COUNTED_MIN = 64 * 1024
# The times for which a server waits for a caller: for the head of a request, for the next bytes of a body, for the
# whole body, and for the next request. The body has one more second for each `REQUEST_BODY_BYTES_PER_SECOND_MIN` bytes.
REQUEST_HEAD_SECONDS_MAX = 10
REQUEST_SILENCE_SECONDS_MAX = 60
REQUEST_BODY_SECONDS_MAX = 60
REQUEST_BODY_BYTES_PER_SECOND_MIN = 64 * 1024
CONNECTION_IDLE_SECONDS_MAX = 5
# While a response has unsent bytes, its caller must read some bytes within `ANSWER_SILENCE_SECONDS_MAX`. The caller
# must also read `ANSWER_BYTES_PER_SECOND_MIN` on average over a minute. The server sends the response in pieces of
# `ANSWER_PIECE_BYTES`.
ANSWER_SILENCE_SECONDS_MAX = 20
ANSWER_BYTES_PER_SECOND_MIN = 4096
ANSWER_PIECE_BYTES = 64 * 1024
# While a server sends the body of a record or blob, the body is in a temporary file, and only pieces of it are in
# memory. `BODY_THREADS_MAX` threads read bodies. Each thread reads one part of up to 16 MiB at a time.
BODY_PIECE_BYTES = 128 * 1024
BODY_THREADS_MAX = 4
# The operating system may buffer this many unsent bytes of a response.
ANSWER_UNSENT_BYTES_MAX = 128 * 1024
# A page of a response has at most this many rows, or this many versions with their whole states.
PAGE_ITEMS_MAX = 1000
PAGE_STATES_MAX = 50
# A request for the organisations with a document of one name examines at most this many organisations. The server calls
# the application's access rules for each organisation.
NAME_HOLDERS_MAX = 1000
# If the values of a pull have more bytes than this, the server starts its response before it has read all values.
PULL_START_BYTES_MAX = 256 * 1024
# A row is large if a response must read more bytes than this for it. At most `LARGE_ROWS_MAX` large rows are decoded
# and encoded at a time.
LARGE_ROW_BYTES_MIN = 256 * 1024
LARGE_ROWS_MAX = 2
# A page of a response ends at this size, if it has more than one row. AWS Lambda allows a little more per response.
PAGE_BYTES_MAX = 4 * 1024 * 1024
# The largest body of a snapshot that a request stores, and of a snapshot record.
SNAPSHOT_BODY_BYTES_MAX = 256 * 1024
# The requests and live connections of one process.
CONNECTIONS_MAX = 10_000
# File descriptors that are reserved for the store's files, for engines and for other services.
DESCRIPTORS_RESERVED = 256
# The limits of one turn of the event loop. A turn accepts, sets up and drops at most this many connections. It serves
# at most `PRINCIPAL_SOCKETS_PER_TURN_MAX` ready sockets of one principal, and `ADDRESS_SOCKETS_PER_TURN_MAX` of all
# callers without a principal together. It serves more only if very many sockets are ready.
ACCEPTS_PER_TURN_MAX = 64
SETUPS_PER_TURN_MAX = 2
DROPS_PER_TURN_MAX = 4
PRINCIPAL_SOCKETS_PER_TURN_MAX = 1
ADDRESS_SOCKETS_PER_TURN_MAX = 2
# The pause after an error of the listening socket.
ACCEPT_RETRY_SECONDS = 1
# The shortest time between two log lines of one kind.
LOG_LINE_SECONDS_MIN = 1
# The share of a process's connections that one principal, organisation or address may use, and the share of its live
# connections. The shares apply only if tokens are required.
PRINCIPAL_SHARE_MAX = 0.1
ORGANISATION_SHARE_MAX = 0.5
ADDRESS_SHARE_MAX = 0.25
# The share of a process's sockets that one principal may have. Idle and closing sockets count too.
PRINCIPAL_SOCKETS_SHARE = 0.5
# The share of all connections that is reserved for requests, however many live connections there are.
REQUESTS_RESERVED_SHARE = 0.25
# At most `POOL_CALLS_MAX` calls of one kind, and `PUSHES_WAITING_MAX` writes of one document, log or record, run or
# wait in a server's process. A call waits at most `CALL_WAIT_SECONDS_MAX` for a thread.
POOL_CALLS_MAX = 1024
PUSHES_WAITING_MAX = 256
CALL_WAIT_SECONDS_MAX = 20
# The threads for an application's checks of tokens and rights.
IDENTITY_THREADS_MAX = 16
# While other principals call and the process is busy, the threads of one caller may compute for an equal share of the
# time. The share is at least `CALLER_COMPUTED_SHARE_MIN`. A caller may first exceed its share by a burst. Then the
# caller pauses, at most for `CALLER_PAUSE_SECONDS_MAX`. The shared time is the time of one core, since the threads of
# a process share an interpreter.
CALLER_COMPUTED_SHARE_MIN = 0.125
CALLER_COMPUTED_BURST_SECONDS = 0.5
CALLER_PAUSE_SECONDS_MAX = 5
# The health response repeats a result of the last tenth of a second. Otherwise the response waits for a check of the
# store. If the last result is at most `HEALTH_AGE_SECONDS_MAX` old, the response waits at most
# `HEALTH_ANSWER_SECONDS_MAX`, and then repeats that result. Without such a result, the response waits until
# `HEALTH_AGE_SECONDS_MAX` after the check began.
HEALTH_REPEATED_SECONDS_MAX = 0.1
HEALTH_ANSWER_SECONDS_MAX = 0.05
HEALTH_AGE_SECONDS_MAX = 10
# The requests of one principal, or of one address if no principal is known.
RATE_REQUESTS_PER_SECOND = 200
RATE_REQUESTS_BURST = 1000
# The requests to one organisation by all principals together: ten times the rate of one principal.
RATE_ORGANISATION_REQUESTS_PER_SECOND = 2000
RATE_ORGANISATION_REQUESTS_BURST = 10_000
# A process remembers the rates of this many callers of each kind.
RATE_HOLDERS_MAX = 10_000
# The keys of an issuer of web tokens. The limits are the time for which the keys are cached, the shortest time between
# two fetches for unknown keys, the longest time of a fetch, and the largest size of the issuer's response.
TOKEN_KEYS_SECONDS_MAX = 3600
TOKEN_KEYS_REFETCH_SECONDS_MIN = 60
TOKEN_KEYS_FETCH_SECONDS_MAX = 5
TOKEN_KEYS_BYTES_MAX = 256 * 1024
# Invalid tokens: the rate and the burst from one address, and the delay of the refusal of each further token. A server
# caches `TOKENS_REMEMBERED_MAX` valid tokens by their digests.
INVALID_TOKENS_PER_SECOND = 1
INVALID_TOKENS_BURST = 50
INVALID_TOKEN_WAIT_SECONDS = 1
TOKENS_REMEMBERED_MAX = 10_000
# The documents, logs and forks that one principal creates.
CREATIONS_PER_SECOND = 5
CREATIONS_BURST = 500
# The records that one principal creates. A put of many records counts each new record.
RECORD_CREATIONS_PER_SECOND = 20
RECORD_CREATIONS_BURST = 10_000
# The new clients of one principal. A client counts at its first mutation in a document.
CLIENT_CREATIONS_PER_SECOND = 20
CLIENT_CREATIONS_BURST = 10_000
# Quotas. A process reads an organisation's measurement again after `USAGE_READ_SECONDS`. It counts the writes that it
# has admitted since the measurement, in slices of `USAGE_SLICE_SECONDS`. The clock of the process is assumed to be
# behind the clock of the measurement by at most `USAGE_CLOCKS_SECONDS_MAX`.
USAGE_READ_SECONDS = 60
USAGE_SLICE_SECONDS = 10
USAGE_SLICES_MAX = 512
USAGE_CLOCKS_SECONDS_MAX = 60
USAGE_ORGANISATIONS_MAX = 10_000
# The metrics show the usage of at most this many organisations: the organisations nearest to a quota.
USAGE_LABELS_MAX = 100
# A measurement that began longer ago than this and did not finish starts again.
USAGE_PROGRESS_SECONDS_MAX = 86_400
# The assumed stored size of a request besides its body, and of a new document, log or fork: items and their keys.
REQUEST_STORED_BYTES = 512
CREATION_STORED_BYTES = 1024
# The lines that all callers together may add to the access log and the security log. One caller may add a tenth of
# these lines.
ACCESS_LINES_PER_SECOND = 2000
SECURITY_LINES_PER_SECOND = 100
# The lines that wait to be written to one of these logs, and the bytes of a path in a line.
LOG_LINES_WAITING_MAX = 10_000
AUDITED_PATH_BYTES_MAX = 512

# Live updates.
LIVE_CONNECTIONS_MAX = 5000
LIVE_MESSAGE_BYTES_MAX = 4096
LIVE_CLOSE_SECONDS_MAX = 10
# If tokens are required, a live connection that opened without a token must send one within this time.
LIVE_HELLO_SECONDS_MAX = 10
# The size of one connection's presence, and the number of a document's connections that show their presence.
PRESENCE_BYTES_MAX = 1024
PRESENCE_CONNECTIONS_MAX = 200
# A document shows the presence of at most this many connections of one principal.
PRESENCE_PER_PRINCIPAL_MAX = 20
# The shortest time between two updates of a connection's presence. Listeners are notified after a pause that grows with
# their number. The two rates limit the bytes of presence sent to all listeners of a document, and of a process.
PRESENCE_SECONDS_MIN = 0.1
PRESENCE_PAUSE_SECONDS_MIN = 0.1
PRESENCE_PAUSE_SECONDS_MAX = 0.25
PRESENCE_ROOM_BYTES_PER_SECOND = 2 * 1024 * 1024
PRESENCE_BYTES_PER_SECOND = 8 * 1024 * 1024

# The processes of one server, and the messages between them. The supervisor restarts a process that takes no messages,
# or that ends, after a pause that doubles each time the process ends early. A message that is too long is dropped.
SERVER_PROCESSES_MAX = 64
SIBLING_LINE_BYTES_MAX = 1024 * 1024
SIBLING_UNSENT_BYTES_MAX = 8 * 1024 * 1024
SIBLING_METRICS_SECONDS_MAX = 1.0
PROCESS_RESTART_SECONDS_MIN = 0.5
PROCESS_RESTART_SECONDS_MAX = 30.0

# Handovers of connections between the processes of one server. A process offers a connection with a push to the process
# that is preferred for the document, and waits at most `HANDOVER_SECONDS_MAX`. A process that did not accept an offer
# in time gets no offers for `HANDOVER_PAUSE_SECONDS`.
HANDOVER_BYTES_MAX = 128 * 1024
HANDOVER_SECONDS_MAX = 0.1
HANDOVER_PAUSE_SECONDS = 5.0

# Functions on AWS. Lambda limits the response to 6 MB of JSON: 64 KB, and the body in Base64.
# `FUNCTION_UNPACKED_BYTES_MAX` limits a body before its compression, which takes time of the function.
FUNCTION_ANSWER_BYTES_MAX = (6 * 1024 * 1024 - 64 * 1024) // 4 * 3
FUNCTION_UNPACKED_BYTES_MAX = 64 * 1024 * 1024
# A connection at API Gateway gets messages for at most this long after its first message. Its token is checked once and
# not stored. So the permission cannot be checked again, and the client must connect again.
GATEWAY_CONNECTION_SECONDS_MAX = 900
# At most this many connections of a document show a presence state. One WebSocket message of API Gateway contains all
# states, and may have 128 KB.
GATEWAY_SHOWN_MAX = 100
