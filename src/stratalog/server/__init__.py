"""The server: a store over HTTP, with live updates and security.

Modules
-------
app             the ASGI application
application     what an application's author brings
service         what handlers share
middleware      hosts, origins, tokens and rates, before a handler runs
request_bodies  request bodies within bounds, unpacked
bodies          JSON and MessagePack
parameters      parameters of a path or a query
errors          one shape for every error
ranges          entity tags, ranges and caching of immutable bodies
security        principals and what they may do
web_tokens      JSON Web Tokens
push_threads    the threads that run pushes, one push of a document at a time
hub             the listeners of this process
live            WebSocket and server-sent events
metrics         metrics in Prometheus's format
pages           the browser client, and an application's pages
documents       routes of documents
history         routes of versions, differences and queries
sync            routes of push and pull
logs            routes of logs
records         routes of records
blobs           routes of blobs
health          routes of health and metrics
"""
