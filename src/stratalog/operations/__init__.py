"""Work on whole stores and documents, by those who run them.

collect     deletes blobs that nothing refers to
exchange    a document as a file, and back
"""
