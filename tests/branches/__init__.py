"""Sessions over real sockets. In each session the server loses history, or its store becomes two copies.

Clients of all kinds change one document. The network loses, duplicates and delays requests and answers. Then the
session restores the server from an older backup, rolls back the server's index, or splits the store into two copies.
The clients continue. At the end each client shows the content of its server. Each client except Replicache reports each
of its lost mutations.

Modules
-------
servers  servers that tests stop, restore and copy, each with its own store folder
members  the clients: Python clients in this process, and clients that a Node process drives
session  the steps of a session and its checks
"""
