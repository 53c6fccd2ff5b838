"""The versioned hybrid store: named values of any size with versions, pointer in the index, body inline or in blobs."""
