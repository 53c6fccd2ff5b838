"""What server and clients must agree on, pure: mutations, patches, mutators and their draft, rebase. No I/O."""
