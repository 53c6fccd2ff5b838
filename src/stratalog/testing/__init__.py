"""For tests of your own: contract suites, faulty ports, simulated time and order, checkers, emulators.

Modules
-------
index_contract   the contract suite of an index
blobs_contract   the contract suite of a blob store
commit_contract  the contract suite of an index and blobs together
queue_contract   the contract suite of a queue
clock            a clock that a test moves by hand
scheduler        many actors in one thread, in an order that a seed decides
locks            locks that wait in the scheduler
faults           ports that fail in every way their contracts allow
network          a network that loses, repeats and delays messages
disk             a disk that loses what was not synced
history          records what each actor did and was answered
checkers         check a recorded history against a log
fixtures         fixtures of pytest: a store, a server, two clients
loopback_server  a server in a thread
emulators        emulators of AWS's services as child processes
aws_local        runs one program on them

Only tests import it.
"""
