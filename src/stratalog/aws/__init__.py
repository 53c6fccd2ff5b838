"""Handlers for AWS Lambda functions that share a store. Each cold start imports these modules, so they must load fast.

Modules
-------
container    the store and application of one process, from environment variables
api          the handler of HTTP API events
events       the headers of events
answers      responses in the form that an HTTP API expects
processor    the handler of batches of the FIFO queue
sockets      the handler of a WebSocket API
listeners    live connections, stored in the index
maintenance  the handler of a schedule: one maintenance pass for each call
"""
