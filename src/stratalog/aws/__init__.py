"""Handlers for AWS Lambda functions over the same store. Every cold start imports these modules.

Modules
-------
container    the store and application of one process, from environment variables
api          the handler of HTTP API events
answers      responses in the form an HTTP API expects
processor    the handler of batches of the FIFO queue
sockets      the handler of a WebSocket API
listeners    live connections, stored in the index
maintenance  the handler of a schedule: one maintenance pass for each call
"""
