"""The ports on real technology. No backend imports another technology's, or anything above the ports.

Modules
-------
memory           all three ports in memory: the strict reference
sqlite           index, small blobs and queue in one SQLite file
sqlite_file      the file itself: group commit, readers, turns of processes
sqlite_blobs     blobs of a folder: rows of the file and larger files
sqlite_queue     the queue's rows in the file
sqlite_tables    the tables of the file, and the statements that fill them
turnstile        a fair hand-over between processes that share a file
files            blobs in a folder
folders          folders that are durable, and go once they are empty
dynamodb         the index on a DynamoDB table
dynamodb_client  DynamoDB's requests and retries
dynamodb_http    HTTP connections to DynamoDB
dynamodb_setup   makes and checks the table
hosted_turns     turns of processes at a hosted index
objectstore      blobs in S3, or another object store
s3_versions      conditional deletes in S3 by object version
sqs              the queue on SQS FIFO
aws_store        an AWS URL becomes index, blobs and queue
boto             sessions and errors of boto3
service_request  requests to a hosted service, tried again
metered_ports    counts what a backend would be billed on AWS
billed_units     the rules by which AWS counts
"""
