"""A content-addressed, ordered map of keys to values, cut into chunk blobs; the same content has the same root."""
