"""Work on whole stores: archive, retention, verification, collection of blobs."""
