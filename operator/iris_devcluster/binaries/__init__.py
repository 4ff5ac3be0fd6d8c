"""The upstream programs: downloaded where a pinned checksum allows it, else built from Go modules; cached per user."""
