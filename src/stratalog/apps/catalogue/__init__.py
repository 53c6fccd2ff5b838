"""The catalogue: seed 003 as a program. Source systems' records are kept as they are, and made into one shared model.

General layout
--------------
sources     where records come from, and how they are read      names     under which ids all of it is kept
folder · feed · oai     adapters: what is new at a source since a checkpoint
splitting · xml         a file or an answer, cut into records
taking      records into the store: newer wins, failures kept   polling   sources in turn, tried again, on a schedule
model · transformers · fields     the shared model, and how each kind of record becomes it
reconcile · workers     works brought into line with their sources, all or what changed, by several processes
summary     counts and titles that a scan leaves behind         reading   search, versions, differences
redrive     dead letters tried again                            migrating rows of a versioned hybrid store
http        the read API and its page

Everything is in records of one organisation; `formats/catalogue.md` says which.
"""
