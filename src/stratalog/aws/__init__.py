"""The same store in functions that AWS Lambda calls. Every cold start imports these modules.

Modules
-------
container    opens the store once, from environment variables
api          HTTP API events, answered by the server's application
answers      responses as an HTTP API takes them
processor    batches of the FIFO queue, settled by the worker's code
sockets      events of a WebSocket API
listeners    live connections, kept in the index
maintenance  one maintenance pass for each call of a schedule
"""
