"""Implementations of the ports. A backend imports no backend of another technology and nothing above the ports.

Modules
-------
memory                  index, blobs and queue in memory: the reference for the other backends
item_rows               rows of items, for an index in SQL
message_ids             ids of messages, for a queue in SQL
row_blobs               blobs, with small blobs as rows of the index's database
sqlite                  index, small blobs and queue in one SQLite file
sqlite_file             connections to the file: group commit, readers, turns of processes
sqlite_connections      opening and closing of connections to the file
sqlite_read_only        the file in a folder that cannot be written
sqlite_blobs            blobs as rows of the file
sqlite_queue            the queue's rows in the file
sqlite_tables           the tables of the file, and the statements that fill them
turnstile               fair turns between processes that share a file
files                   blobs in a folder
postgres                index, blobs, queue and announcements in one schema of PostgreSQL
postgres_commits        commits to the index, with blobs, in groups
postgres_connections    connections, their settings, and errors
postgres_session        a session that ends if no answer comes, and notices commits that no standby may have
postgres_announcements  hints between processes by NOTIFY
postgres_queue          the queue's rows
postgres_tables         the tables, and their creation
postgres_address        the address of a store in PostgreSQL
dynamodb                the index on a DynamoDB table
dynamodb_client         DynamoDB's requests and retries
dynamodb_http           HTTP connections to DynamoDB
dynamodb_setup          the client's settings, and creation and check of the table
hosted_turns            turns of processes at a hosted index
cached_blobs            a wrapper of blobs with a cache in a folder of this machine
objectstore             blobs in S3 or another object store
s3_versions             lists and conditional deletes in S3 by object version, and creation of the bucket
sqs                     the queue on SQS FIFO
sqs_setup               creation of the queues on SQS, and their URLs
aws_access              region, endpoints and credentials of AWS
aws_store               the index, blobs and queue behind an AWS URL
boto                    clients and errors of boto3
service_request         retries of requests to a hosted service
metered_ports           wrappers of the ports that count the units that AWS would bill for the same calls
billed_units            the rules by which AWS counts billed units
"""
