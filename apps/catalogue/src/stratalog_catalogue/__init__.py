"""The catalogue: records of many sources, kept as they came, and works made of them in one shared model.

Modules
-------
sources          sources and how they are read
source_rename    another name for a source, and for all it has
names            ids of a catalogue's records
folder           the adapter of a folder
feed             the adapter of an HTTP feed
oai              the adapter of OAI-PMH 2.0
record_splitter  a file or an answer as records
csv_rows         rows of CSV
encodings        encodings of text
xml              XML of strangers, read safely
xml_bounds       how long, deep and many the parts of XML may be
polls            polls sources on a schedule
ingest           stores records: newer wins, failures become dead letters
dry_run          what storing them would do
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
letter_commands  the commands on dead letters
source_commands  the commands on sources
serve            the command that serves a catalogue

See `formats/catalogue.md`.
"""
