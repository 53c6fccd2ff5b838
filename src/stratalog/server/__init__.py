"""The server: what a push and a pull do to a document, and HTTP around it and the rest of a store.

General layout
--------------
push        mutations of a group's clients, applied in order
pull        what is new since a cookie, read from one version
replicache  both in the words of the Replicache protocol

These are plain functions without I/O of their own: HTTP, the queue's worker and a Lambda all call them.
The rest is asynchronous, needs `stratalog[server]`, and calls the core on worker threads.

application     what an application's author brings      app         the ASGI application
edge            hosts, origins, tokens, rates            unpacking   packed bodies, within bounds
security        principals and what they may             web_tokens  JSON Web Tokens
bodies          JSON and MessagePack                     errors      one shape for every error
hub             who listens to what                      live        WebSocket and server-sent events
service         what handlers share                      workers     threads; whose turn it is
parameters      what handlers take                       ranges      bodies that never change
metrics         what is counted                          pages       the browser client, an application's pages
sync · documents · history · logs · records · blobs · health      routes, one noun per file
"""
