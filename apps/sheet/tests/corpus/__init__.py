"""A corpus of workbooks that many programs wrote: imported, compared cell by cell with another reader, and exported.

Modules
-------
source_packages  Debian's source packages that the workbooks are taken from
selection        which workbooks are tried, by what is in them
scoring          one workbook: its cells here and by another reader, its report, its export
office           LibreOffice as the judge of exports

``make corpus`` runs it; see ``docs/corpus.md``. The workbooks are test data of those packages and no part of this
repository.
"""
