"""The catalogue: records of many sources with their original bytes, and works in one model, made from the records.

Modules
-------
sources          settings of sources
source_rename    renames a source and moves its records
names            ids of a catalogue's records
folder           the adapter of a folder
folder_files     lists the files of a folder
feed             the adapter of an HTTP feed
deadline         the time limit of a request
content_decoder  decodes compressed HTTP responses in bounded memory
oai              the adapter of OAI-PMH 2.0
record_splitter  splits a file or an HTTP answer into records
csv_rows         splits CSV into rows
encodings        decodes and encodes text
xml              reads untrusted XML
xml_bounds       checks the limits of XML
polls            polls sources on a schedule
ingest           stores newer records, and makes dead letters of failures
deletions        delete records, and find the records that a complete state lacks
precedence       whether a record replaces a version of the same or a later time
dry_run          counts the changes of an ingest, and writes nothing
model            the shared model
transformers     make works from sources' records
reconciliation   synchronises works with their sources
workers          scan a catalogue in one process or several
summary          stores the counts and titles of a scan
queries          search, versions, differences
letters          lists dead letters, also if some are damaged
redrive          retries dead letters
migration        imports a versioned hybrid store
metrics          writes counts in Prometheus's format
http             HTTP routes and the page
limits           limits of catalogues
commands         the command `stratalog catalogue`
letter_commands  the commands on dead letters
source_commands  the commands on sources
serve            the command that serves a catalogue

`formats/catalogue.md` specifies the stored formats.
"""
