"""The catalogue: records of many sources, kept as they came, and works made of them in one shared model.

Modules
-------
sources          sources and how they are read
names            ids of a catalogue's records
folder           the adapter of a folder
feed             the adapter of an HTTP feed
oai              the adapter of OAI-PMH 2.0
record_splitter  a file or an answer as records
xml              XML of strangers, read safely
polls            polls sources on a schedule
ingest           stores records: newer wins, failures become dead letters
model            the shared model
transformers     a source's record becomes a work
reconciliation   synchronises works with their sources
workers          a scan of a catalogue by one process or several
summary          counts and titles that a scan leaves
queries          search, versions, differences
redrive          tries dead letters again
migration        imports a versioned hybrid store
metrics          counts in Prometheus's format
http             routes and the page
limits           limits of catalogues
commands         the command `stratalog catalogue`
serve            the command that serves a catalogue

See `formats/catalogue.md`.
"""
