"""The simulation: worlds that run from a seed, planted bugs that the checkers must catch, and reference models.

Modules
-------
simulate            runs many seeds: `make simulate`, `make mutants`
worlds              the protocol of a world, and the run of one seed
world_index         writers on the index alone
world_log           appenders, readers, retention, forks, deletion
world_documents     clients of documents over several processes
world_records       writers, readers and retention of records
world_restores      entries that are committed together with their snapshots
world_snapshots     commits while the blob store is unreachable
world_clients       clients that are collected and return
world_collect       collectors that run while documents change
world_decay         blobs that a disk damages while floors rise and collectors run
world_backup        backups that run while other processes write
world_sync          devices that push and pull over a network
world_branches      devices whose server was restored from a backup, or is a copy that diverged
world_queue         devices whose pushes are queued, and workers
world_disk          SQLite and files under power failures
world_folder        processes that share a folder of blobs, and are killed
world_threads       threads of one handle
world_turns         processes that share a file
world_hosted_turns  processes that share a log at a hosted index
world_usage         a server that enforces quotas, and measurements of the stored amounts
world_waiting       large pushes that wait in the queue for weeks, and a collector
inspected           the check that an undamaged store verifies
healthy             inspections of the stores of other worlds, during and after their runs
actors              steps that actors of several worlds share
faulty              mutators that fail, and the check of their dead letters
hostile             writers that use other writers' keys and reserved names
devices             the clients of worlds `sync` and `queue`
travellers          devices of the world `branches`
clusters            backends in memory, and processes that reach them over faulty ports
file_steps          steps at single file operations
scratch             folders of the worlds that work on real files
pool                thread pools on the scheduler
threads_handle      a handle that checks each result against earlier results
interleaving        yield points at each access of a shared attribute
racing              a class for the tests of interleaving
log_truth           the model of a log
log_outcomes        the outcomes of creations, forks, deletions and raised floors
scrub_truth         the time of the scrub's last read of each blob
records_truth       the hash of each version of a record, computed from the version's item alone
documents_truth     the model of a document
disk_document       a document of the world `disk`
documents_jobs      clients and forks that outlive processes
first_seeds         the seed with which each hunt for a planted bug begins
mutants             the definition of a planted bug, and a function that runs seeds until a checker catches it
mutants_log         bugs of the log
mutants_documents   bugs of documents
mutants_records     bugs of records
mutants_collect     bugs of collection
mutants_decay       bugs that forget, free or collect history over damaged blobs
mutants_backup      bugs of backups
mutants_disk        bugs of the SQLite file and the folder of blobs
mutants_folder      bugs of a folder that processes share
mutants_sync        bugs of push and pull
mutants_branches    bugs in the resumption of clients of a lost branch
mutants_queue       bugs of the queue path
mutants_threads     bugs of shared handles
"""
