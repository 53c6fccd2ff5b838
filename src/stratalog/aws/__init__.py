"""The same store from functions that AWS Lambda calls. What is imported here is imported at every cold start.

General layout
--------------
container    what one execution environment opens once, from its environment variables
api          HTTP API events, answered by the server's own application
answers      what an HTTP API is given, in one piece
processor    batches of the FIFO queue, settled by the worker's own code
sockets      the events of a WebSocket API: who listens, and who is here
maintenance  a schedule's calls: upkeep of the store
listeners    the live connections that a gateway holds, kept in the index, and how they are told
"""
