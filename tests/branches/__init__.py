"""Sessions over real sockets in whose middle a server loses history, or a copy of it goes on beside it.

Clients of all kinds change one document while their requests and answers are lost, doubled and late. Then the server
goes back to an older backup, or its index is rolled back, or its store is split into two copies, and the clients go on.
In the end each agrees with the server that it uses, and nothing is lost without a word.

Modules
-------
servers  servers of one store folder each, which are stopped, put back and copied
members  the clients: in Python here, and those that a Node process drives
session  what happens in a session, and what must be true in it
"""
