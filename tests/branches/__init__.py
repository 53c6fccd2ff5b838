"""Sessions over real sockets, during which a server loses history or its store is split into two copies.

Clients of all kinds change one document while requests and answers are lost, duplicated and delayed. Then the server is
restored from an older backup, or its index is rolled back, or its store is split into two copies. The clients continue.
At the end each client agrees with its server, and reports each of its mutations that was lost. Replicache reports none.

Modules
-------
servers  servers with one store folder each, which tests stop, restore and copy
members  the clients: in this process, and those that a Node process drives
session  the steps of a session and its checks
"""
