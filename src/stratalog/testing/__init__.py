"""For your own tests: contract suites, faulty ports, simulated time and scheduling, checkers, emulators.

Modules
-------
index_contract   the contract suite of an index
blobs_contract   the contract suite of a blob store
commit_contract  the contract suite of an index and blobs together
queue_contract   the contract suite of a queue
announcements_contract  the contract suite of announcements
clock            a clock that a test moves by hand
scheduler        many actors in one thread, in an order given by a seed
locks            locks that wait in the scheduler
faults           ports whose calls may fail, take effect late, or lose their answer
network          a network that loses, repeats and delays messages
disk             a disk that loses unsynced writes
history          a record of each actor's calls and of their outcomes
checkers         checks of a recorded history against a log
fixtures         fixtures for pytest: a store, a server, two clients
loopback_server  a server in a thread
emulators        emulators of AWS's services as child processes
postgres_server  a PostgreSQL server as a child process
postgres_local   a command that runs one program beside a PostgreSQL server
orphans          ends the services of a program that was killed
local_services   a program that runs beside services, which end with the program
aws_local        a command that runs one program beside the emulators

Only tests, benchmarks and scripts import this package.
"""
