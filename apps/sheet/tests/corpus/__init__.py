"""A test with workbooks of many programs: import, comparison with another reader, and export.

Modules
-------
source_packages  fetches the workbooks from Debian's source packages
scoring          imports one workbook, compares its cells with the cells of another reader, and exports it
office           opens exports with LibreOffice

``make corpus`` runs the test; see ``docs/corpus.md``. The workbooks are test data of Debian's packages and not a part
of this repository.
"""
